//! Python's pickles as data.
//!
//! A pickle is a program for a small stack machine ([PEP 307], [PEP 3154], `pickletools` of CPython for each opcode),
//! and one of its instructions calls whatever the file names. The machine here has no such instruction: a call becomes
//! an `Instance` that says which class was asked for and with what, and those who read a format make of it what they
//! know. So nothing that a file names is ever run, and what nobody asks for costs no more than its bytes.
//!
//! | module | holds |
//! |---|---|
//! | `machine` | the instructions |
//! | `stream`, `stack` | what they read, and what they work on |
//! | `node` | a value and the pickle around it, for those who read |
//! | `refused` | names that stand only in pickles which attack whoever loads them |
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

/// All objects of a pickle, and the one that it is.
#[derive(Debug)]
pub struct Pickle {
    objects: Vec<Object>,
    root: Value,
}

/// A value. Objects are shared, and may be part of themselves: so they lie in the [`Pickle`], and a value says where.
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
    /// Bytes, and integers beyond 64 bits: no format that is read here has any that matter.
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
    /// What lies outside of the pickle, by what the file calls it.
    Persistent(Value),
}

/// What a class, or a function, would be called with.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) class: Value,
    pub(crate) arguments: Value,
    /// What the instance is told of itself afterwards: its attributes, for most classes.
    pub(crate) state: Option<Value>,
    /// What is appended to an instance that is a kind of list.
    pub(crate) elements: Vec<Value>,
    /// What is put into an instance that is a kind of dictionary.
    pub(crate) entries: Vec<(Value, Value)>,
}

/// What one pickle may cost. The memory of a machine is a small multiple of the values that it has pushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the pickle.
    pub(crate) bytes: usize,
    /// Values that are pushed in all.
    pub(crate) values: usize,
    /// Containers within containers that are begun and not ended.
    pub(crate) depth: usize,
    /// Bytes of one string.
    pub(crate) text: usize,
}

impl Default for Limits {
    /// Enough for the metadata of two million chunks: a thousand tensors and two moments of each, on seven hundred
    /// ranks.
    fn default() -> Self {
        Self { bytes: 2 << 30, values: 1 << 27, depth: 1 << 10, text: 16 << 20 }
    }
}

/// Why bytes are no pickle that is read here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// It ends before it is whole, or its instructions make no sense.
    #[error("the pickle is damaged at byte {at}: {fault}")]
    Damaged {
        /// Which byte.
        at: usize,
        /// What is wrong.
        fault: String,
    },
    /// It names what only an attack on its reader would name.
    #[error("the pickle names {name}, which runs code where Python loads it")]
    Dangerous {
        /// The module and the name.
        name: String,
    },
    /// It needs more than is given to any.
    #[error("the pickle has {0}")]
    TooLarge(String),
}

pub(crate) type Result<T> = std::result::Result<T, PickleError>;

impl Pickle {
    /// Reads a pickle of any protocol from 2 on. What follows its end is not looked at.
    ///
    /// # Errors
    /// If it is damaged, names what only an attack would, or is larger than any that trainers write.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        machine::run(bytes, &Limits::default())
    }

    /// What the pickle is.
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
