//! References to other documents.

use serde_json::json;

use super::{accepts, fault, machine_of};
use crate::Grammar;
use crate::json::style::Style;

#[test]
fn references_lead_into_a_registry_alone() {
    let mut registry = crate::Registry::default();
    registry.insert("types/name.json", json!({"type": "string", "$defs": {"short": {"$ref": "other.json"}}}));
    registry.insert("types/other.json", json!({"maxLength": 2, "type": "string"}));
    registry.insert("x", json!({"$id": "urn:x", "$defs": {"y": {"$anchor": "z", "const": 1}}}));
    let schema = json!({"$id": "https://example.org/root.json", "type": "array", "prefixItems": [
        {"$ref": "types/name.json"}, {"$ref": "types/name.json#/$defs/short"}, {"$ref": "urn:x#z"}]});
    let machine = machine_of(Grammar::json_schema_with(&schema, Style::default(), &registry).unwrap());
    assert!(accepts(&machine, "[\"abc\",\"ab\",1]"));
    assert!(!accepts(&machine, "[\"abc\",\"abc\",1]") && !accepts(&machine, "[\"abc\",\"ab\",2]"));
    assert!(fault(schema).fault.contains("leads out of the document, to no schema that is given"));
}
