//! Ranks keep the contract of [`Collective`], with arbitrary numbers in worlds of up to five ranks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use verdigris_collective::{Collective, CollectiveError, Deadlines, Listener, Tcp};

const PATIENT: Deadlines = Deadlines { call: Duration::from_secs(30), idle: Duration::from_secs(30) };
const HASTY: Deadlines = Deadlines { call: Duration::from_millis(300), idle: Duration::from_millis(600) };

fn terms() -> [(&'static str, String); 1] {
    [("model", "f00".into())]
}

/// Runs each rank on its own thread; returns their results.
fn each<T: Send>(ranks: Vec<Tcp>, run: impl Fn(Tcp) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|own| scope.spawn(|| run(own))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Ranks connected over loopback.
fn tcp(world: usize, deadlines: Deadlines) -> Vec<Tcp> {
    let listeners: Vec<_> = (1..world).map(|_| Listener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<String> = listeners.iter().map(|listener| listener.address().to_string()).collect();
    thread::scope(|scope| {
        let follow =
            |listener: Listener| scope.spawn(move || listener.follow(Some(world), &terms(), deadlines, |_| ()));
        let others: Vec<_> = listeners.into_iter().map(follow).collect();
        let first = Tcp::lead(&addresses, &terms(), deadlines).unwrap();
        std::iter::once(first).chain(others.into_iter().map(|other| other.join().unwrap().unwrap())).collect()
    })
}

/// The numbers of a rank: of very different magnitudes, so that the order of a sum shows.
fn numbers(rank: usize, length: usize, seed: u32) -> Vec<f32> {
    let number = |i: usize| {
        let bits =
            (seed ^ (rank as u32) << 20 ^ i as u32).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
        (bits as f32 / u32::MAX as f32 - 0.5) * 10f32.powi((bits % 9) as i32 - 4)
    };
    (0..length).map(number).collect()
}

/// All calls, interleaved; the results are compared with plain loops.
fn keeps_the_contract(ranks: Vec<Tcp>, lengths: &[usize], seed: u32) {
    let world = ranks.len();
    each(ranks, |mut own| {
        let rank = own.rank();
        assert_eq!(own.world(), world);
        for &length in lengths {
            let mut x = numbers(rank, length, seed);
            own.all_reduce_sum(&mut x).unwrap();
            let mut sums = numbers(0, length, seed);
            for other in 1..world {
                sums.iter_mut().zip(numbers(other, length, seed)).for_each(|(sum, x)| *sum += x);
            }
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&x), bits(&sums));

            // Parts of different lengths, one of them empty.
            let of = |rank: usize| numbers(rank, (length + rank) / 2 * usize::from(rank != 1), seed);
            let expected: Vec<f32> = (0..world).flat_map(of).collect();
            let mut all = vec![7.0; if rank == 0 { expected.len() } else { 3 }];
            own.gather(&of(rank), &mut all).unwrap();
            assert_eq!(all, if rank == 0 { expected } else { vec![7.0; 3] });

            let said: Vec<u8> = (0..length).map(|i| (i * 31) as u8).collect();
            let mut message = if rank == 0 { said.clone() } else { vec![1; 5] };
            own.broadcast(&mut message).unwrap();
            assert_eq!(message, said);

            // Around the ring.
            if world > 1 {
                let (next, last) = ((rank + 1) % world, (rank + world - 1) % world);
                let mut came = vec![0.0; length];
                own.send(next, &numbers(rank, length, seed)).unwrap();
                own.receive(last, &mut came).unwrap();
                assert_eq!(came, numbers(last, length, seed));
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn processes_keep_the_contract(world in 1usize..=5, lengths in prop::collection::vec(0usize..200, 1..4), seed: u32) {
        keeps_the_contract(tcp(world, PATIENT), &lengths, seed);
    }
}

#[test]
fn one_rank_is_a_world() {
    keeps_the_contract(tcp(1, PATIENT), &[0, 1, 9], 3);
}

/// More than the system buffers at once, in both directions.
#[test]
fn long_ones_arrive_whole() {
    keeps_the_contract(tcp(3, PATIENT), &[1 << 20], 5);
}

/// A rank that ends early causes errors in all others, long before the deadline.
#[test]
fn a_rank_that_is_gone_is_noticed() {
    let started = Instant::now();
    let errors = each(tcp(3, PATIENT), |mut own| {
        let mut x = [1.0; 8];
        own.all_reduce_sum(&mut x).unwrap();
        if own.rank() == 1 {
            return None;
        }
        let error = own.all_reduce_sum(&mut x).unwrap_err();
        assert!(matches!(own.all_reduce_sum(&mut x), Err(CollectiveError::Over)));
        assert!(matches!(own.gather(&[], &mut []), Err(CollectiveError::Over)));
        Some(error.to_string())
    });
    assert!(errors[1].is_none());
    for error in errors.iter().flatten() {
        assert!(error.contains("rank 1"), "{error}");
    }
    assert!(errors.iter().flatten().any(|error| error.contains("gone")), "{errors:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

/// A rank that hangs is noticed at the deadline, and not before.
#[test]
fn a_rank_that_hangs_is_noticed_at_the_deadline() {
    let errors = each(tcp(2, HASTY), |mut own| {
        let started = Instant::now();
        if own.rank() == 1 {
            thread::sleep(4 * HASTY.call);
            return None;
        }
        let error = match own.rank() {
            0 => own.all_reduce_sum(&mut [1.0]).unwrap_err(),
            _ => own.broadcast(&mut Vec::new()).unwrap_err(),
        };
        assert!(started.elapsed() >= HASTY.call - Duration::from_millis(20), "{:?}", started.elapsed());
        assert!(started.elapsed() < 3 * HASTY.call, "{:?}", started.elapsed());
        Some(error)
    });
    assert!(matches!(&errors[0], Some(CollectiveError::Late { peer, .. }) if peer.starts_with("rank 1")), "{errors:?}");
}

/// While there is nothing to compute, the others wait longer for rank 0.
#[test]
fn a_message_may_come_later_than_numbers() {
    each(tcp(2, HASTY), |mut own| {
        if own.rank() == 0 {
            thread::sleep(HASTY.call + Duration::from_millis(100));
        }
        own.broadcast(&mut Vec::new()).unwrap();
    });
}

/// The reason that a rank reports for giving up reaches the others.
#[test]
fn a_rank_says_why_it_gives_up() {
    let errors = each(tcp(3, PATIENT), |mut own| match own.rank() {
        1 => {
            own.abort("no memory for keys and values");
            None
        }
        _ => own.all_reduce_sum(&mut [0.5]).err(),
    });
    for error in [&errors[0], &errors[2]] {
        let error = error.as_ref().unwrap();
        assert!(error.to_string().contains("no memory for keys and values"), "{error}");
        assert!(matches!(error, CollectiveError::Failed { .. }), "{error:?}");
    }
}

/// Ranks that make different calls do not mistake one for the other.
#[test]
fn ranks_out_of_step_are_told() {
    type Do = fn(&mut Tcp) -> Result<(), CollectiveError>;
    let pairs: [(Do, Do); 3] = [
        (|own| own.all_reduce_sum(&mut [0.0; 4]), |own| own.all_reduce_sum(&mut [0.0; 5])),
        (|own| own.all_reduce_sum(&mut [0.0; 4]), |own| own.gather(&[0.0; 4], &mut [])),
        (|own| own.gather(&[0.0; 4], &mut [0.0; 8]), |own| own.gather(&[0.0; 5], &mut [])),
    ];
    for (first, second) in pairs {
        let errors = each(tcp(2, PATIENT), |mut own| if own.rank() == 0 { first(&mut own) } else { second(&mut own) });
        let is_told = |error: &Result<(), CollectiveError>| matches!(error, Err(CollectiveError::OutOfStep { .. }));
        assert!(errors.iter().any(is_told), "{errors:?}");
    }
}

/// The errors of rank 0 and a listener that do not fit. The listener then finds a rank 0 that does.
fn misfits(world: Option<usize>, theirs: &str) -> (String, String) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = [listener.address().to_string()];
    let mut refused = Vec::new();
    let model = |name: &str| [("model", name.to_owned())];
    let first = thread::scope(|scope| {
        let other = scope.spawn(|| listener.follow(world, &model(theirs), PATIENT, |error| refused.push(error)));
        let first = Tcp::lead(&address, &terms(), PATIENT).unwrap_err();
        assert!(matches!(first, CollectiveError::Misfit { .. }), "{first:?}");
        match world {
            None => drop(Tcp::lead(&address, &model(theirs), PATIENT).unwrap()),
            // One address has no rank: the listener has no one to wait for, but belongs to this world.
            Some(_) => {
                let gone = Listener::bind("127.0.0.1:0").unwrap().address().to_string();
                Tcp::lead(&[address[0].clone(), gone], &model(theirs), HASTY).unwrap_err();
            }
        }
        assert_eq!(other.join().unwrap().is_ok(), world.is_none());
        first
    });
    assert!(matches!(refused[..], [CollectiveError::Misfit { .. }]), "{refused:?}");
    (first.to_string(), refused[0].to_string())
}

#[test]
fn those_that_do_not_fit_are_told_why_on_both_sides() {
    let (first, other) = misfits(Some(3), "f00");
    for said in [&first, &other] {
        assert!(said.contains("rank 0 wants a world of 2 ranks, not 3"), "{said}");
    }
    assert!(first.starts_with("rank 1 (127.0.0.1:") && other.starts_with("rank 0 (127.0.0.1:"), "{first} {other}");
    let (first, other) = misfits(None, "ba4");
    for said in [first, other] {
        assert!(said.contains("the model of rank 0 is f00, not ba4"), "{said}");
    }
}

#[test]
fn a_rank_of_another_version_is_told() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address();
    let mut stream = TcpStream::connect(address).unwrap();
    let follower = thread::spawn(move || {
        let mut refused = Vec::new();
        listener.follow(None, &terms(), PATIENT, |error| refused.push(error)).map(|_| refused)
    });
    let mut hello = b"verdigris ranks".to_vec();
    hello.extend_from_slice(&9u32.to_le_bytes());
    stream.write_all(&[b"VR\x01\0", &(hello.len() as u32).to_le_bytes()[..], &hello].concat()).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("version 9"), "{said}");
    Tcp::lead(&[address.to_string()], &terms(), PATIENT).unwrap();
    let refused = follower.join().unwrap().unwrap();
    assert!(matches!(refused[..], [CollectiveError::Misfit { .. }]), "{refused:?}");
}

/// Silent connections do not block others: one after the other, they would take five minutes.
#[test]
fn the_silent_do_not_hold_the_door() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address();
    let silent: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
    let follower = thread::spawn(move || listener.follow(None, &terms(), PATIENT, |_| ()).map(|_| ()));
    let deadlines = Deadlines { call: Duration::from_secs(60), ..PATIENT };
    Tcp::lead(&[address.to_string()], &terms(), deadlines).unwrap();
    follower.join().unwrap().unwrap();
    drop(silent);
}

/// A listener keeps listening after foreign connections.
#[test]
fn strangers_are_left_alone() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address();
    let mut strangers: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    strangers[0].write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    strangers[1].write_all(b"VR\x01\0\xff\xff\xff\xff").unwrap();
    strangers.pop();
    let follower = thread::spawn(move || listener.follow(None, &terms(), PATIENT, |_| ()));
    let mut first = Tcp::lead(&[address.to_string()], &terms(), PATIENT).unwrap();
    let mut other = follower.join().unwrap().unwrap();
    let sum = thread::spawn(move || other.all_reduce_sum(&mut [1.0]));
    let mut x = [2.0];
    first.all_reduce_sum(&mut x).unwrap();
    sum.join().unwrap().unwrap();
    assert_eq!(x, [3.0]);
}

#[test]
fn addresses_at_which_nobody_is() {
    let free = Listener::bind("127.0.0.1:0").unwrap().address().to_string();
    let error = Tcp::lead(std::slice::from_ref(&free), &terms(), HASTY).unwrap_err();
    assert!(matches!(error, CollectiveError::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains(&free), "{error}");
    let error = Tcp::lead(&[free.clone(), free], &terms(), HASTY).unwrap_err();
    assert!(error.to_string().contains("listed twice"), "{error}");
    for bad in ["", "nowhere", "127.0.0.1:99999"] {
        assert!(matches!(Listener::bind(bad), Err(CollectiveError::Listen { .. })), "{bad}");
        assert!(matches!(Tcp::lead(&[bad.into()], &terms(), HASTY), Err(CollectiveError::Connect { .. })), "{bad}");
    }
}

/// Each message counts its content and eight bytes.
#[test]
fn what_is_sent_is_counted() {
    let sent = each(tcp(3, PATIENT), |mut own| {
        let before = own.sent();
        own.all_reduce_sum(&mut [0.0; 10]).unwrap();
        own.gather(&[0.0; 3], &mut [0.0; 9][..if own.rank() == 0 { 9 } else { 0 }]).unwrap();
        own.broadcast(&mut if own.rank() == 0 { vec![1; 5] } else { Vec::new() }).unwrap();
        own.sent() - before
    });
    assert_eq!(sent, [2 * 48 + 2 * 13, 48 + 20, 48 + 20]);
}
