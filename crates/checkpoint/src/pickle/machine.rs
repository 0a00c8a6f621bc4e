//! The instructions of a pickle, protocols 2 to 5.

use std::collections::HashMap;
use std::sync::Arc;

use super::refused::is_refused;
use super::stack::Stack;
use super::stream::Stream;
use super::{Instance, Limits, Object, Pickle, PickleError, Result, Value};

/// The longest name of a module or a class.
const LONGEST_NAME: usize = 1 << 10;

/// Runs a pickle to its end.
pub(super) fn run(bytes: &[u8], limits: &Limits) -> Result<Pickle> {
    if bytes.len() > limits.bytes {
        return Err(PickleError::TooLarge(format!("{} bytes, and at most {} are read", bytes.len(), limits.bytes)));
    }
    let mut machine = Machine {
        stream: Stream::new(bytes, limits.text),
        limits,
        stack: Stack::default(),
        objects: Vec::new(),
        memo: HashMap::new(),
    };
    loop {
        match machine.stream.opcode()? {
            b'.' => {
                let root = machine.pop()?;
                return Ok(Pickle { objects: machine.objects, root });
            }
            opcode => machine.step(opcode)?,
        }
    }
}

struct Machine<'a> {
    stream: Stream<'a>,
    limits: &'a Limits,
    stack: Stack,
    objects: Vec<Object>,
    memo: HashMap<u32, Value>,
}

impl Machine<'_> {
    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            // PROTO, FRAME
            0x80 => match self.stream.byte()? {
                2..=5 => Ok(()),
                other => Err(self.stream.damaged(format!("protocol {other} is unknown; 2 to 5 are read"))),
            },
            0x95 => self.stream.take(8).map(drop),
            // MARK, POP, POP_MARK, DUP
            b'(' => self.stack.mark(self.limits),
            b'0' if self.stack.ends_in_mark() => self.pop_mark().map(drop),
            b'0' => self.pop().map(drop),
            b'1' => self.pop_mark().map(drop),
            b'2' => self.top().and_then(|top| self.push(top)),
            // NONE, NEWTRUE, NEWFALSE
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            // BININT, BININT1, BININT2, LONG1, LONG4, BINFLOAT
            b'J' => self.stream.word().and_then(|word| self.push(Value::Int(i64::from(word as i32)))),
            b'K' => self.stream.byte().and_then(|byte| self.push(Value::Int(byte.into()))),
            b'M' => self.stream.array().and_then(|bytes| self.push(Value::Int(u16::from_le_bytes(bytes).into()))),
            0x8a => self.stream.short().and_then(|bytes| self.long(bytes)),
            0x8b => self.stream.counted().and_then(|bytes| self.long(bytes)),
            b'G' => self.stream.array().and_then(|bytes| self.push(Value::Float(f64::from_be_bytes(bytes)))),
            // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8; SHORT_BINSTRING and BINSTRING are strings of Python 2, in an
            // encoding that the file does not specify.
            0x8c | b'U' => self.stream.short().and_then(|bytes| self.text(bytes)),
            b'X' | b'T' => self.stream.counted().and_then(|bytes| self.text(bytes)),
            0x8d => self.stream.counted_8().and_then(|bytes| self.text(bytes)),
            // SHORT_BINBYTES, BINBYTES, BINBYTES8, BYTEARRAY8
            b'C' => self.stream.short().and_then(|_| self.make(Object::Bytes)),
            b'B' => self.stream.counted().and_then(|_| self.make(Object::Bytes)),
            0x8e | 0x96 => self.stream.counted_8().and_then(|_| self.make(Object::Bytes)),
            // EMPTY_LIST, LIST, APPEND, APPENDS
            b']' => self.make(Object::List(Vec::new())),
            b'l' => self.pop_mark().and_then(|values| self.make(Object::List(values))),
            b'a' => self.pop().and_then(|value| self.extend(&[value])),
            b'e' => self.pop_mark().and_then(|values| self.extend(&values)),
            // EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3
            b')' => self.make(Object::Tuple(Box::default())),
            b't' => self.pop_mark().and_then(|values| self.make(Object::Tuple(values.into()))),
            0x85 => self.pop_many::<1>().and_then(|values| self.make(Object::Tuple(values.into()))),
            0x86 => self.pop_many::<2>().and_then(|values| self.make(Object::Tuple(values.into()))),
            0x87 => self.pop_many::<3>().and_then(|values| self.make(Object::Tuple(values.into()))),
            // EMPTY_DICT, DICT, SETITEM, SETITEMS
            b'}' => self.make(Object::Dict(Vec::new())),
            b'd' => {
                let values = self.pop_mark()?;
                let entries = self.pairs(&values)?;
                self.make(Object::Dict(entries))
            }
            b's' => self.pop_many::<2>().and_then(|values| self.insert(&values)),
            b'u' => self.pop_mark().and_then(|values| self.insert(&values)),
            // EMPTY_SET, ADDITEMS, FROZENSET
            0x8f => self.make(Object::Set(Vec::new())),
            0x90 => self.pop_mark().and_then(|values| self.extend(&values)),
            0x91 => self.pop_mark().and_then(|values| self.make(Object::Set(values))),
            // BINPUT, LONG_BINPUT, MEMOIZE, BINGET, LONG_BINGET
            b'q' => self.stream.byte().and_then(|index| self.remember(index.into())),
            b'r' => self.stream.word().and_then(|index| self.remember(index)),
            0x94 => self.remember(self.memo.len() as u32),
            b'h' => self.stream.byte().and_then(|index| self.recall(index.into())),
            b'j' => self.stream.word().and_then(|index| self.recall(index)),
            // GLOBAL, STACK_GLOBAL
            b'c' => {
                let (module, name) = (self.stream.line()?, self.stream.line()?);
                self.global(module.into(), name.into())
            }
            0x93 => {
                let [module, name] = self.pop_many()?;
                let (module, name) = (self.name(module)?, self.name(name)?);
                self.global(module, name)
            }
            // REDUCE, NEWOBJ, NEWOBJ_EX: the keywords of the last are only for classes that no reader uses.
            b'R' | 0x81 => self.pop_many().and_then(|[class, arguments]| self.instance(class, arguments)),
            0x92 => self.pop_many().and_then(|[class, arguments, _]| self.instance(class, arguments)),
            // BUILD, BINPERSID
            b'b' => self.build(),
            b'Q' => self.pop().and_then(|id| self.make(Object::Persistent(id))),
            other => Err(self.stream.damaged(format!("{other:#04x} is not an instruction of torch or Python"))),
        }
    }

    fn damaged<T>(&self, fault: &str) -> Result<T> {
        Err(self.stream.damaged(fault))
    }

    fn empty(&self) -> PickleError {
        self.stream.damaged("there are fewer values than it takes")
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.stack.push(value, self.limits)
    }

    fn top(&self) -> Result<Value> {
        self.stack.top().ok_or_else(|| self.empty())
    }

    fn pop(&mut self) -> Result<Value> {
        self.stack.pop().ok_or_else(|| self.empty())
    }

    fn pop_many<const N: usize>(&mut self) -> Result<[Value; N]> {
        self.stack.pop_many().ok_or_else(|| self.empty())
    }

    fn pop_mark(&mut self) -> Result<Vec<Value>> {
        self.stack.pop_mark().ok_or_else(|| self.stream.damaged("no container was begun"))
    }

    fn make(&mut self, object: Object) -> Result<()> {
        // There are no more objects than pushed values, so their number is limited too.
        let id = u32::try_from(self.objects.len()).map_err(|_| self.empty())?;
        self.push(Value::Object(id))?;
        self.objects.push(object);
        Ok(())
    }

    fn object(&self, value: Value) -> Option<&Object> {
        match value {
            Value::Object(id) => self.objects.get(id as usize),
            _ => None,
        }
    }

    fn top_object(&mut self) -> Result<&mut Object> {
        match self.top()? {
            Value::Object(id) => Ok(&mut self.objects[id as usize]),
            _ => self.damaged("a number is not a container"),
        }
    }

    fn remember(&mut self, index: u32) -> Result<()> {
        let top = self.top()?;
        if self.memo.len() >= self.limits.values {
            return Err(PickleError::TooLarge(format!("more than {} values to remember", self.limits.values)));
        }
        self.memo.insert(index, top);
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<()> {
        let value = self.memo.get(&index).copied();
        self.push(value.ok_or_else(|| self.stream.damaged("it recalls what it never made"))?)
    }

    fn long(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > 8 {
            return self.make(Object::Long);
        }
        // Two's complement: the sign of the last byte fills the rest.
        let fill = if bytes.last().is_some_and(|&last| last >= 0x80) { 0xff } else { 0 };
        let mut all = [fill; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(all)))
    }

    fn text(&mut self, bytes: &[u8]) -> Result<()> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.make(Object::Text(text.into())),
            // Python's strings may contain surrogates, which are not valid in UTF-8.
            Err(_) => self.make(Object::Bytes),
        }
    }

    fn extend(&mut self, values: &[Value]) -> Result<()> {
        match self.top_object()? {
            Object::List(all) | Object::Set(all) => all.extend(values),
            Object::Instance(instance) => instance.elements.extend(values),
            _ => return self.damaged("an element is appended to something that is not a list"),
        }
        Ok(())
    }

    fn pairs(&self, values: &[Value]) -> Result<Vec<(Value, Value)>> {
        let (pairs, []) = values.as_chunks() else { return self.damaged("a key has no value") };
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }

    fn insert(&mut self, values: &[Value]) -> Result<()> {
        let pairs = self.pairs(values)?;
        match self.top_object()? {
            Object::Dict(entries) => entries.extend(pairs),
            Object::Instance(instance) => instance.entries.extend(pairs),
            _ => return self.damaged("a key is put into something that is not a dictionary"),
        }
        Ok(())
    }

    fn name(&self, value: Value) -> Result<Arc<str>> {
        match self.object(value) {
            Some(Object::Text(text)) if text.len() > LONGEST_NAME => {
                Err(PickleError::TooLarge(format!("the name of a class of more than {LONGEST_NAME} bytes")))
            }
            Some(Object::Text(text)) => Ok(text.clone()),
            _ => self.damaged("the name of a class is not a string"),
        }
    }

    fn global(&mut self, module: Arc<str>, name: Arc<str>) -> Result<()> {
        if is_refused(&module, &name) {
            return Err(PickleError::Dangerous { name: format!("{module}.{name}") });
        }
        self.make(Object::Global { module, name })
    }

    fn instance(&mut self, class: Value, arguments: Value) -> Result<()> {
        if !matches!(self.object(class), Some(Object::Global { .. } | Object::Instance(_))) {
            return self.damaged("it calls something that is not a class");
        }
        if !matches!(self.object(arguments), Some(Object::Tuple(_))) {
            return self.damaged("arguments are not a tuple");
        }
        let instance = Instance { class, arguments, state: None, elements: Vec::new(), entries: Vec::new() };
        self.make(Object::Instance(instance.into()))
    }

    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        match self.top_object()? {
            Object::Instance(instance) => instance.state = Some(state),
            _ => return self.damaged("attributes are given to something that is not an instance"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Pickle> {
        run(bytes, &Limits::default())
    }

    #[track_caller]
    fn fails(bytes: &[u8], said: &str) {
        let fault = read(bytes).unwrap_err().to_string();
        assert!(fault.contains(said), "{fault:?} should say {said:?}");
    }

    #[test]
    fn damaged_pickles() {
        fails(b"", "at byte 0: it ends before it is whole");
        fails(b"\x80\x02}", "at byte 3: it ends before it is whole");
        fails(b"\x80\x07.", "protocol 7 is unknown");
        fails(b".", "fewer values than it takes");
        fails(b"(.", "fewer values than it takes");
        fails(b"(00.", "fewer values than it takes");
        fails(b"K\x01Nb.", "a number is not a container");
        fails(b"]Nb.", "attributes are given to something that is not an instance");
        fails(b"h\x07.", "it recalls what it never made");
        fails(b"t.", "no container was begun");
        fails(b"}(Nu.", "a key has no value");
        fails(b")Na.", "appended to something that is not a list");
        fails(b"]NNs.", "put into something that is not a dictionary");
        fails(b"])R.", "it calls something that is not a class");
        fails(b"ctorch\nSize\n]R.", "arguments are not a tuple");
        fails(b"NN\x93.", "the name of a class is not a string");
        fails(b"ctorch\nSize", "a name has no end");
        fails(b"I7\n.", "0x49 is not an instruction");
    }

    #[test]
    fn integers_of_any_length() {
        let int = |bytes: &[u8]| read(bytes).unwrap().root;
        assert_eq!(int(b"\x8a\x00."), Value::Int(0));
        assert_eq!(int(b"\x8a\x06\0\0\0\0\0\xff."), Value::Int(-1 << 40));
        assert_eq!(int(b"\x8a\x02\xff\0."), Value::Int(255));
        assert_eq!(int(b"\x8b\x08\0\0\0\0\0\0\0\0\0\0\x80."), Value::Int(i64::MIN));
        assert_eq!(int(b"J\xfe\xff\xff\xff."), Value::Int(-2));
        assert_eq!(read(b"\x8a\x09\0\0\0\0\0\0\0\0\x01.").unwrap().root().kind(), "a number");
    }

    /// If names were copied, instructions of a few bytes with a long name would use far more memory than the file has
    /// bytes.
    #[test]
    fn a_name_costs_no_more_than_its_bytes() {
        let text = |length: usize| [&b"X"[..], &(length as u32).to_le_bytes(), &vec![b'a'; length], b"q\0"].concat();
        let long = [text(LONGEST_NAME + 1), b"h\0\x93.".to_vec()].concat();
        fails(&long, "the name of a class of more than 1024 bytes");
        let many = [text(LONGEST_NAME), b"h\0h\0\x930".repeat(1000), b".".to_vec()].concat();
        let Pickle { objects, .. } = read(&many).unwrap();
        let [Object::Text(text), globals @ ..] = &objects[..] else { panic!("a text comes first") };
        assert_eq!(globals.len(), 1000);
        for global in globals {
            let Object::Global { module, name } = global else { panic!("{global:?}") };
            assert!(Arc::ptr_eq(module, text) && Arc::ptr_eq(name, text), "a name is not copied");
        }
    }

    #[test]
    fn names_that_only_an_attack_has() {
        let said = "the pickle names posix.system, which runs code where Python loads it";
        fails(b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00echo\x85R.", said);
        fails(b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "names os.system");
        fails(b"c__builtin__\neval\n.", "names __builtin__.eval");
        fails(b"ctorch.serialization\nos.system\n.", "names torch.serialization.os.system");
        // Some versions of Python write this for a member of an enum.
        assert!(read(b"cbuiltins\ngetattr\n.").is_ok() && read(b"cdataclasses\nfield\n.").is_ok());
    }

    #[test]
    fn what_a_pickle_may_cost() {
        let few = Limits { bytes: 64, values: 8, depth: 3, text: 16 };
        let fails = |bytes: &[u8], said: &str| {
            let fault = run(bytes, &few).unwrap_err().to_string();
            assert!(fault.contains(said), "{fault:?} should say {said:?}");
        };
        fails(&[b'N'; 65], "65 bytes, and at most 64 are read");
        fails(&[b'N'; 9], "more than 8 values");
        fails(&[&b"N"[..], &[0x94; 9]].concat(), "more than 8 values to remember");
        fails(b"((((", "more than 3 containers in each other");
        fails(b"X\x00\x00\x00\x7f", "a string of 2130706432 bytes, and at most 16 are read");
        fails(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "a string of 18446744073709551615 bytes");
        assert!(run(b"(((NNNNNttt.", &few).is_ok(), "as much as is allowed");
    }
}
