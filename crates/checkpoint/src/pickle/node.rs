//! A value in its pickle.

use super::{Instance, Object, Pickle, Value};

/// A value of a pickle, for readers. Each method returns `None` if the value is of another kind.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    pickle: &'a Pickle,
    value: Value,
}

impl<'a> Node<'a> {
    pub(crate) fn new(pickle: &'a Pickle, value: Value) -> Self {
        Self { pickle, value }
    }

    fn with(self, value: Value) -> Self {
        Self::new(self.pickle, value)
    }

    fn object(self) -> Option<&'a Object> {
        self.pickle.object(self.value)
    }

    fn instance(self) -> Option<&'a Instance> {
        match self.object()? {
            Object::Instance(instance) => Some(instance),
            _ => None,
        }
    }

    /// Whether it is `None`.
    pub fn is_none(self) -> bool {
        self.value == Value::None
    }

    /// The integer.
    pub fn int(self) -> Option<i64> {
        match self.value {
            Value::Int(int) => Some(int),
            _ => None,
        }
    }

    /// The integer as a count.
    pub fn count(self) -> Option<usize> {
        self.int().and_then(|int| usize::try_from(int).ok())
    }

    /// The string.
    pub fn text(self) -> Option<&'a str> {
        match self.object()? {
            Object::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The values of a list, a tuple or a set, or the elements of an instance.
    pub fn items(self) -> Option<impl ExactSizeIterator<Item = Node<'a>>> {
        let values: &[Value] = match self.object()? {
            Object::List(values) | Object::Set(values) => values,
            Object::Tuple(values) => values,
            Object::Instance(instance) => &instance.elements,
            _ => return None,
        };
        Some(values.iter().map(move |&value| self.with(value)))
    }

    /// The first values of a tuple; `None` if it has fewer.
    pub fn tuple<const N: usize>(self) -> Option<[Node<'a>; N]> {
        match self.object()? {
            Object::Tuple(values) => values.first_chunk().map(|values| values.map(|value| self.with(value))),
            _ => None,
        }
    }

    /// The keys and values of a dictionary, or the entries of an instance. A key that was inserted twice occurs twice;
    /// in Python the last one counts.
    pub fn entries(self) -> Option<impl ExactSizeIterator<Item = (Node<'a>, Node<'a>)> + DoubleEndedIterator> {
        let entries = match self.object()? {
            Object::Dict(entries) => entries,
            Object::Instance(instance) => &instance.entries,
            _ => return None,
        };
        Some(entries.iter().map(move |&(key, value)| (self.with(key), self.with(value))))
    }

    /// The value of a key of a dictionary.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        self.entries()?.rev().find_map(|(of, value)| (of.text() == Some(key)).then_some(value))
    }

    /// An attribute of an instance.
    pub fn attribute(self, name: &str) -> Option<Node<'a>> {
        let state = self.state()?;
        // Classes with slots have two dictionaries, of which one may be missing.
        state.get(name).or_else(|| state.tuple::<2>()?.into_iter().find_map(|half| half.get(name)))
    }

    /// The state of an instance.
    pub fn state(self) -> Option<Node<'a>> {
        self.instance()?.state.map(|state| self.with(state))
    }

    /// The module and the name of a class or a function.
    pub fn global(self) -> Option<(&'a str, &'a str)> {
        match self.object()? {
            Object::Global { module, name } => Some((module, name)),
            _ => None,
        }
    }

    /// The module and the name of an instance's class, and the arguments that it was created with.
    pub fn call(self) -> Option<(&'a str, &'a str, Node<'a>)> {
        let instance = self.instance()?;
        let (module, name) = self.with(instance.class).global()?;
        Some((module, name, self.with(instance.arguments)))
    }

    /// Whether it is an instance of a class of this name, in any module: torch has moved classes.
    pub fn is_a(self, class: &str) -> bool {
        self.call().is_some_and(|(_, name, _)| name == class)
    }

    /// The file's id of an object outside of the pickle.
    pub fn persistent(self) -> Option<Node<'a>> {
        match self.object()? {
            Object::Persistent(id) => Some(self.with(*id)),
            _ => None,
        }
    }

    /// The numbers of a `torch.Size`, or of a tuple or list of them.
    pub fn size(self) -> Option<Vec<usize>> {
        let numbers = match self.call() {
            Some(("torch", "Size", arguments)) => arguments.tuple::<1>()?[0],
            _ => self,
        };
        numbers.items()?.map(Node::count).collect()
    }

    /// A description of the kind of value, for errors.
    pub fn kind(self) -> String {
        match (self.value, self.object()) {
            (Value::None, _) => "None".into(),
            (Value::Bool(_), _) => "a truth value".into(),
            (Value::Int(_) | Value::Float(_), _) | (_, Some(Object::Long)) => "a number".into(),
            (_, Some(Object::Text(_))) => "a string".into(),
            (_, Some(Object::Bytes)) => "bytes".into(),
            (_, Some(Object::Tuple(_))) => "a tuple".into(),
            (_, Some(Object::List(_))) => "a list".into(),
            (_, Some(Object::Set(_))) => "a set".into(),
            (_, Some(Object::Dict(_))) => "a dictionary".into(),
            (_, Some(Object::Global { module, name })) => format!("the name {module}.{name}"),
            (_, Some(Object::Persistent(_))) => "a storage".into(),
            (_, Some(Object::Instance(_)) | None) => match self.call() {
                Some((module, name, _)) => format!("an instance of {module}.{name}"),
                None => "an instance".into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pickle.dumps` of CPython 3.11 in protocols 2 and 5.
    #[test]
    fn values_of_both_protocols() {
        // {"a": [1, -2, 1 << 40, 1.5, None, True], "b": ("é", b"\x01"), "c": {1, 2}, "a2": the list again}
        let two: &[u8] =
            b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\
            \x01G?\xf8\x00\x00\x00\x00\x00\x00N\x88eX\x01\x00\x00\x00bq\x03X\x02\x00\x00\x00\xc3\xa9q\x04c_cod\
            ecs\nencode\nq\x05X\x01\x00\x00\x00\x01q\x06X\x06\x00\x00\x00latin1q\x07\x86q\x08Rq\t\x86q\nX\x01\
            \x00\x00\x00cq\x0bc__builtin__\nset\nq\x0c]q\r(K\x01K\x02e\x85q\x0eRq\x0fX\x02\x00\x00\x00a2q\x10h\
            \x02u.";
        let five: &[u8] =
            b"\x80\x05\x95I\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xff\x8a\x06\
            \x00\x00\x00\x00\x00\x01G?\xf8\x00\x00\x00\x00\x00\x00N\x88e\x8c\x01b\x94\x8c\x02\xc3\xa9\x94C\x01\
            \x01\x94\x86\x94\x8c\x01c\x94\x8f\x94(K\x01K\x02\x90\x8c\x02a2\x94h\x02u.";
        for bytes in [two, five] {
            let pickle = Pickle::read(bytes).unwrap();
            let root = pickle.root();
            let list: Vec<Node<'_>> = root.get("a").unwrap().items().unwrap().collect();
            assert_eq!(list[..3].iter().map(|node| node.int()).collect::<Vec<_>>(), [Some(1), Some(-2), Some(1 << 40)]);
            assert!(list[1].count().is_none() && list[3].kind() == "a number" && list[4].is_none());
            assert_eq!(root.get("b").unwrap().tuple::<2>().unwrap()[0].text(), Some("é"));
            assert_eq!(root.get("none").map(Node::kind), None);
        }
        let pickle = Pickle::read(five).unwrap();
        assert_eq!(pickle.root().get("c").unwrap().items().unwrap().len(), 2);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let pickle = Pickle::read(b"}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00aK\x02u.").unwrap();
        assert_eq!(pickle.root().get("a").unwrap().int(), Some(2));
    }

    #[test]
    fn a_list_that_holds_itself() {
        let pickle = Pickle::read(b"]q\x00h\x00a.").unwrap();
        let inner = pickle.root().items().unwrap().next().unwrap();
        assert_eq!(inner.items().unwrap().len(), 1);
    }
}
