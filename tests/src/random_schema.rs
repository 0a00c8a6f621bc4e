//! Random schemas.

use serde_json::{Map, Value, json};
use verdigris::logits::{Purpose, Random};

/// A sequence of random numbers, and a generator of random schemas from them.
pub struct Chance {
    random: Random,
    at: u64,
}

impl Chance {
    /// A generator with a seed, which determines its schemas.
    pub fn new(seed: u64) -> Self {
        Self::after(seed, 0)
    }

    /// A generator with a seed that leaves out the first `at` numbers.
    pub fn after(seed: u64, at: u64) -> Self {
        Self { random: Random::new(seed), at }
    }

    /// Its random numbers.
    pub fn random(&self) -> &Random {
        &self.random
    }

    fn uniform(&mut self) -> f64 {
        self.at += 1;
        self.random.uniform(self.at, Purpose::Data)
    }

    /// A random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    /// A randomly chosen item.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Generates a schema: usually a sensible one, with keywords of one type; occasionally an invalid one.
    pub fn schema(&mut self, depth: u32) -> Value {
        let mut schema = Map::new();
        let kind = if depth == 0 { self.below(4) } else { self.below(9) };
        let number = |chance: &mut Self| match chance.below(4) {
            0 => json!(chance.below(20) as i64 - 10),
            1 => json!((chance.below(2000) as f64 - 1000.0) / 100.0),
            2 => json!(chance.uniform() * 1e6),
            _ => json!(0),
        };
        let mut put = |chance: &mut Self, key: &str, share: f64, value: Value| {
            if chance.uniform() < share {
                schema.insert(key.into(), value);
            }
        };
        match kind {
            0 => {
                let names =
                    [json!("integer"), json!("number"), json!(["number", "null"]), json!(["integer", "boolean"])];
                let name = self.one(&names);
                put(self, "type", 1.0, name);
                for (key, share) in
                    [("minimum", 0.4), ("maximum", 0.3), ("exclusiveMinimum", 0.2), ("exclusiveMaximum", 0.2)]
                {
                    let value = number(self);
                    put(self, key, share, value);
                }
            }
            1 => {
                put(self, "type", 1.0, json!("string"));
                let (least, most) = (self.below(5), self.below(9));
                put(self, "minLength", 0.3, json!(least));
                put(self, "maxLength", 0.5, json!(most));
                // Not `\\b`, which the judge takes for Unicode's, where ECMA-262 has ASCII's.
                let patterns = ["^[a-z]+$", "a|b", "^\\d{2,}", "[^\\w\\s]$", "^(x|yy)*$", ".", "^$", "é+"];
                let pattern = self.one(&patterns);
                put(self, "pattern", 0.5, json!(pattern));
            }
            2 => {
                let values = [
                    json!(1),
                    json!(1.0),
                    json!("a\"\n"),
                    json!(null),
                    json!([1, [2]]),
                    json!({"b": 1, "a": []}),
                    json!(-0.5),
                ];
                let some: Vec<Value> = (0..1 + self.below(3)).map(|_| self.one(&values)).collect();
                put(self, "enum", 1.0, json!(some));
                put(self, "type", 0.2, json!(["string", "integer", "object"]));
            }
            3 => return self.one(&[json!(true), json!({}), json!({"type": ["null", "boolean"]}), json!(false)]),
            4 | 5 => {
                put(self, "type", 0.9, json!("object"));
                let names = ["a", "b", "c\"", "é", ""];
                let properties: Map<String, Value> =
                    (0..self.below(4)).map(|_| (self.one(&names).to_owned(), self.schema(depth - 1))).collect();
                put(self, "properties", 0.9, Value::Object(properties));
                let required: Vec<&str> = (0..self.below(3)).map(|_| self.one(&names)).collect();
                put(self, "required", 0.6, json!(required));
                let others = if self.below(2) == 0 { json!(false) } else { self.schema(depth - 1) };
                put(self, "additionalProperties", 0.8, others);
            }
            6 => {
                put(self, "type", 0.9, json!("array"));
                let items = self.schema(depth - 1);
                put(self, "items", 0.8, items);
                let first: Vec<Value> = (0..self.below(3)).map(|_| self.schema(depth - 1)).collect();
                put(self, "prefixItems", 0.3, json!(first));
                let (least, most) = (self.below(3), self.below(5));
                put(self, "minItems", 0.4, json!(least));
                put(self, "maxItems", 0.6, json!(most));
            }
            7 => {
                let branches: Vec<Value> = (0..1 + self.below(3)).map(|_| self.schema(depth - 1)).collect();
                let key = self.one(&["anyOf", "oneOf"]);
                put(self, key, 1.0, json!(branches));
            }
            _ => put(self, "$ref", 1.0, json!("#")),
        }
        if self.uniform() < 0.02 {
            let key =
                self.one(&["multipleOf", "format", "minimum", "$ref", "not", "required", "anyOf", "pattern", "items"]);
            let value = self.one(&[json!(-1), json!("x"), json!([]), json!({}), json!(["a", 3]), json!("(")]);
            schema.insert(key.into(), value);
        }
        Value::Object(schema)
    }
}
