//! Python's pickles as data.
//!
//! A pickle is a program for a small stack machine ([PEP 307], [PEP 3154], `pickletools` of CPython for each opcode),
//! and one of its instructions calls anything that the file names. The machine here never calls: a call becomes an
//! `Instance` with the class and the arguments, which the readers of each format interpret. So nothing that a file
//! names is ever run, and parts that no reader uses cost no more than their bytes.
//!
//! | module | contents |
//! |---|---|
//! | `machine` | the instructions |
//! | `stream`, `stack` | their input, and the values that they work on |
//! | `node` | a value in its pickle, for readers |
//! | `refused` | names that occur only in malicious pickles |
//!
//! [PEP 307]: https://peps.python.org/pep-0307/
//! [PEP 3154]: https://peps.python.org/pep-3154/

use std::sync::Arc;

mod machine;
mod node;
mod refused;
mod stack;
mod stream;

pub use node::Node;

/// All objects of a pickle, and its root.
#[derive(Debug)]
pub struct Pickle {
    objects: Vec<Object>,
    root: Value,
}

/// A value. Objects may be shared and contain themselves: so they are stored in the [`Pickle`], and a value refers to
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Object(u32),
}

#[derive(Debug)]
pub(crate) enum Object {
    /// Shared with the classes that it names.
    Text(Arc<str>),
    /// Bytes, and integers beyond 64 bits: no supported format has any that matter.
    Bytes,
    Long,
    Tuple(Box<[Value]>),
    List(Vec<Value>),
    Set(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Global {
        module: Arc<str>,
        name: Arc<str>,
    },
    Instance(Box<Instance>),
    /// An object outside of the pickle, by its id in the file.
    Persistent(Value),
}

/// A recorded call of a class or a function.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) class: Value,
    pub(crate) arguments: Value,
    /// The state that is set afterwards: the attributes, for most classes.
    pub(crate) state: Option<Value>,
    /// The elements that are appended, if the class is a kind of list.
    pub(crate) elements: Vec<Value>,
    /// The entries that are inserted, if the class is a kind of dictionary.
    pub(crate) entries: Vec<(Value, Value)>,
}

/// The limits for one pickle. Memory use is a small multiple of the number of values pushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The bytes of the pickle.
    pub(crate) bytes: usize,
    /// The total number of values pushed.
    pub(crate) values: usize,
    /// The nesting depth of open containers.
    pub(crate) depth: usize,
    /// The bytes of one string.
    pub(crate) text: usize,
}

impl Default for Limits {
    /// Enough for the metadata of two million chunks: a thousand tensors and two moments of each, on seven hundred
    /// ranks.
    fn default() -> Self {
        Self { bytes: 2 << 30, values: 1 << 27, depth: 1 << 10, text: 16 << 20 }
    }
}

/// The reason why a pickle is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// It ends too early, or has invalid instructions.
    #[error("the pickle is damaged at byte {at}: {fault}")]
    Damaged {
        /// The offset of the instruction.
        at: usize,
        /// The defect.
        fault: String,
    },
    /// It contains a name that only an attack would use.
    #[error("the pickle names {name}, which runs code where Python loads it")]
    Dangerous {
        /// The module and the name.
        name: String,
    },
    /// It exceeds a limit.
    #[error("the pickle has {0}")]
    TooLarge(String),
}

pub(crate) type Result<T> = std::result::Result<T, PickleError>;

impl Pickle {
    /// Reads a pickle of any protocol from 2 on. Bytes after its end are ignored.
    ///
    /// # Errors
    /// If it is damaged, contains a name that only an attack would use, or is larger than any that trainers write.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        machine::run(bytes, &Limits::default())
    }

    /// The value of the pickle.
    pub fn root(&self) -> Node<'_> {
        Node::new(self, self.root)
    }

    pub(crate) fn object(&self, value: Value) -> Option<&Object> {
        match value {
            Value::Object(id) => self.objects.get(id as usize),
            _ => None,
        }
    }
}
