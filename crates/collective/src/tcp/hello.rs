//! The first message of a connection: the sender, the receiver, and what is to be computed.

/// The version of the protocol. Incompatible protocols have different numbers.
pub(super) const VERSION: u32 = 1;

/// The start of every hello, whatever its version.
const MAGIC: &[u8; 15] = b"verdigris ranks";

/// The longest hello in bytes.
pub(super) const MOST: usize = 1 << 16;

/// The most ranks in a world.
pub(super) const MOST_RANKS: usize = 256;

/// The first message of a rank to another after it has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// A random number chosen by rank 0, which identifies the world.
    pub(super) session: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) world: usize,
    /// From rank 0: the addresses of the ranks from 1 on.
    pub(super) addresses: Vec<String>,
    /// From rank 0: names and values that all ranks must agree on.
    pub(super) terms: Vec<(String, String)>,
}

/// The reason why bytes are not a valid hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHello {
    /// The sender is not a rank.
    Foreign,
    /// The sender is a rank of another version.
    Version(u32),
}

impl Hello {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.session.to_le_bytes());
        let mut number = |number: usize| bytes.extend_from_slice(&(number as u32).to_le_bytes());
        [self.from, self.to, self.world, self.addresses.len(), self.terms.len()].into_iter().for_each(&mut number);
        let terms = self.terms.iter().flat_map(|(name, value)| [name, value]);
        for text in self.addresses.iter().chain(terms) {
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadHello> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(BadHello::Foreign)?;
        let version = number(&mut rest).ok_or(BadHello::Foreign)?;
        if version != VERSION {
            return Err(BadHello::Version(version));
        }
        Self::parse_rest(rest).ok_or(BadHello::Foreign)
    }

    fn parse_rest(mut rest: &[u8]) -> Option<Self> {
        let (session, after) = rest.split_first_chunk()?;
        rest = after;
        let session = u64::from_le_bytes(*session);
        let mut numbers = [0; 5];
        for to in &mut numbers {
            *to = number(&mut rest)? as usize;
        }
        let [from, to, world, addresses, terms] = numbers;
        if !(2..=MOST_RANKS).contains(&world) || from >= to || to >= world || addresses >= world || terms > MOST {
            return None;
        }
        let addresses = (0..addresses).map(|_| text(&mut rest)).collect::<Option<_>>()?;
        let terms = (0..terms).map(|_| Some((text(&mut rest)?, text(&mut rest)?))).collect::<Option<_>>()?;
        rest.is_empty().then_some(Self { session, from, to, world, addresses, terms })
    }

    /// Describes the first of this rank's terms that differs from the other's.
    pub(super) fn differs(&self, own: &[(&str, String)]) -> Option<String> {
        own.iter().find_map(|(name, ours)| {
            let theirs = self.terms.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
            (theirs != Some(ours)).then(|| format!("the {name} of rank 0 is {}, not {ours}", theirs.unwrap_or("none")))
        })
    }
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*bytes))
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = number(rest)? as usize;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            session: u64::MAX - 3,
            from: 0,
            to: 2,
            world: 3,
            addresses: vec!["a:1".into(), "[::1]:2".into()],
            terms: vec![("model".into(), "f00".into()), ("split".into(), "tensor".into())],
        }
    }

    #[test]
    fn what_was_said_is_understood() {
        assert_eq!(Hello::parse(&hello().bytes()), Ok(hello()));
    }

    #[test]
    fn what_is_no_hello_is_told_from_one_of_another_version() {
        let mut bytes = hello().bytes();
        for cut in 0..bytes.len() {
            assert_eq!(Hello::parse(&bytes[..cut]), Err(BadHello::Foreign), "{cut}");
        }
        bytes.push(0);
        assert_eq!(Hello::parse(&bytes), Err(BadHello::Foreign));
        assert_eq!(Hello::parse(b"GET / HTTP/1.1\r\n\r\n"), Err(BadHello::Foreign));
        bytes[MAGIC.len()] = 9;
        assert_eq!(Hello::parse(&bytes), Err(BadHello::Version(9)));
        for wrong in [Hello { to: 3, ..hello() }, Hello { from: 2, ..hello() }, Hello { world: 1, ..hello() }] {
            assert_eq!(Hello::parse(&wrong.bytes()), Err(BadHello::Foreign), "{wrong:?}");
        }
    }

    #[test]
    fn what_differs_has_a_name() {
        let own = |split: &str| [("model", "f00".to_owned()), ("split", split.to_owned())];
        assert_eq!(hello().differs(&own("tensor")), None);
        assert_eq!(hello().differs(&own("layers")).unwrap(), "the split of rank 0 is tensor, not layers");
        assert_eq!(hello().differs(&[("cache", "F16".into())]).unwrap(), "the cache of rank 0 is none, not F16");
    }
}
