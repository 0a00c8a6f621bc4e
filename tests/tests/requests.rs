//! Requests of the library: stop strings, custom transforms, many prompts, seeds, and options without effect.

use std::ops::ControlFlow;
use std::sync::mpsc;

use verdigris::constrain::{ForcedText, NoRoom};
use verdigris::logits::{Row, TokenId, Transform};
use verdigris::schedule::Capacity;
use verdigris::{
    Beams, Error, Event, Key, LogprobsMode, Marking, Prompt, Registry, Request, Sampling, Service, Stop, Style,
    TextEvent, TreeShape, Written,
};
use verdigris_tests::harness::TALE_SMALL as ENGINE;

const PROMPTS: [&str; 7] =
    ["The captain", "", "It was a dark night, and", "\"Yes,\"", "A", "In the morning the ship", "The"];

fn key() -> Key {
    Key::from_secret([3; 32], "test", Marking::lists(), ENGINE.reader().vocabulary()).expect("a key")
}

/// Forbids each token after itself.
struct NoRepeat;

impl Transform for NoRepeat {
    type State = Option<TokenId>;
    fn start(&self, prompt: &[TokenId]) -> Option<TokenId> {
        prompt.last().copied()
    }
    fn apply(&self, last: &Option<TokenId>, row: &mut Row) {
        if let &Some(token) = last {
            row.logits_mut()[token as usize] = f32::NEG_INFINITY;
        }
    }
    fn advance(&self, last: &mut Option<TokenId>, token: TokenId) {
        *last = Some(token);
    }
}

/// Allows one token only, so that a text repeats it.
struct Only(TokenId);

impl Transform for Only {
    type State = ();
    fn start(&self, _: &[TokenId]) {}
    fn apply(&self, _: &(), row: &mut Row) {
        let only = self.0 as usize;
        row.logits_mut().iter_mut().enumerate().filter(|(i, _)| *i != only).for_each(|(_, z)| *z = f32::NEG_INFINITY);
    }
    fn advance(&self, _: &mut (), _: TokenId) {}
}

/// With any other options, each text and its metadata are those that its prompt and seed give alone.
#[test]
fn many_prompts_are_as_each_alone() {
    let key = key();
    #[allow(clippy::type_complexity, reason = "a list of names and ways to ask")]
    let ways: [(&str, &dyn for<'a> Fn(Request<'a>) -> Request<'a>); 5] = [
        ("plain", &|request| request),
        ("marked form", &|request| request.regex("[A-Za-z ,.]{5,40}")),
        ("stop", &|request| request.stop("e").stop(". ")),
        ("own step", &|request| request.transform(NoRepeat)),
        ("greedy", &|request| request.temperature(0.0)),
    ];
    for (name, way) in ways {
        let request = |prompt: &str, seed| way(ENGINE.request(prompt).watermark(&key).max_tokens(24)).seed(seed);
        let mut streamed = vec![String::new(); PROMPTS.len()];
        let mut ended: Vec<Option<Written>> = vec![None; PROMPTS.len()];
        let together = request("not this one", 40)
            .stream_prompts(PROMPTS, |i, event| {
                match event {
                    Event::Text(piece) => {
                        assert!(ended[i].is_none() && !piece.is_empty());
                        streamed[i] += piece;
                    }
                    Event::End(written) => assert!(ended[i].replace(written.clone()).is_none()),
                    _ => (),
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(together.len(), PROMPTS.len());
        for (i, (written, seed)) in together.iter().zip(40..).enumerate() {
            let alone = request(PROMPTS[i], seed).text().unwrap();
            let of = |written: &Written| {
                let Written { text, tokens, stop, stop_string, complete, seed, prompt_tokens, .. } = written.clone();
                (text, tokens, stop, stop_string, complete, seed, prompt_tokens)
            };
            assert_eq!(of(written), of(&alone), "{name}: {:?}", PROMPTS[i]);
            assert_eq!(streamed[i], alone.text, "{name}");
            assert_eq!(of(ended[i].as_ref().unwrap()), of(&alone), "{name}");
        }
        let side_by_side = request(PROMPTS[0], 40).texts(3).unwrap();
        for (written, seed) in side_by_side.iter().zip(40..) {
            assert_eq!(written.text, request(PROMPTS[0], seed).text().unwrap().text, "{name}");
        }
    }
}

/// More prompts than run at the same time; and an error names the index of a prompt that is too long.
#[test]
fn more_prompts_than_fit_at_once() {
    let prompts: Vec<String> = (0..Request::SIDE_BY_SIDE + 3).map(|i| format!("Chapter {i}")).collect();
    let mut last = 0;
    let count = |i: usize, _: TextEvent<'_>| {
        last = last.max(i);
        ControlFlow::Continue(())
    };
    let written = ENGINE.request("").max_tokens(2).seed(0).stream_prompts(&prompts, count).unwrap();
    assert_eq!((written.len(), last), (prompts.len(), prompts.len() - 1));
    let at = Request::SIDE_BY_SIDE + 1;
    let alone = ENGINE.request(&prompts[at]).max_tokens(2).seed(at as u64).text().unwrap();
    assert_eq!(written[at].tokens, alone.tokens);
    let long = "word ".repeat(3000);
    let error = ENGINE.request("").prompts(["A", &long]).unwrap_err();
    assert!(matches!(error, Error::InPrompt { index: 1, .. }), "{error}");
    assert!(error.to_string().starts_with("prompt 1: the prompt is 3"), "{error}");
    assert!(ENGINE.request("").prompts(Vec::<String>::new()).unwrap().is_empty());
}

/// After a break the caller gets the text so far, and nothing more is computed.
#[test]
fn a_break_ends_all_texts() {
    let mut seen = vec![String::new(); 4];
    let mut pieces = 0;
    let texts = ENGINE.request("The").max_tokens(200).seed(1).stream_texts(4, |i, event| {
        assert!(pieces < 10, "nothing after the break");
        if let Event::Text(piece) = event {
            seen[i] += piece;
            pieces += 1;
        }
        if pieces == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let texts = texts.unwrap();
    let tokens: usize = texts.iter().map(|written| written.tokens.len()).sum();
    assert!(tokens <= 14, "{tokens}");
    for (written, seen) in texts.iter().zip(&seen) {
        assert_eq!((&written.text, written.stop), (seen, None));
    }
}

/// A stop string is found across tokens, with all other options, and no part of it is passed on.
#[test]
fn stop_strings_with_all_ways_to_write() {
    let key = key();
    let whole = ENGINE.request("The captain").watermark(&key).max_tokens(60).seed(9).text().unwrap().text;
    for length in [1, 4, 11, 23] {
        let stop: String = whole.chars().skip(15).take(length).collect();
        let expected = &whole[..whole.find(&stop).unwrap()];
        let request = || ENGINE.request("The captain").watermark(&key).max_tokens(60).seed(9).stop(&stop);
        for request in [request(), request().lookup(), request().draft(&ENGINE).repeatable()] {
            let mut streamed = String::new();
            let written = request.stream(|piece| {
                streamed += piece;
                ControlFlow::Continue(())
            });
            let written = written.unwrap();
            assert_eq!((written.text.as_str(), streamed.as_str()), (expected, expected), "{stop:?}");
            assert_eq!((written.stop, written.stop_string.as_ref()), (Some(Stop::StopString), Some(&stop)));
        }
    }
    // A stop string that does not occur changes nothing, even if a prefix of it does: the text that was held back
    // follows at the end.
    let ending: String = whole.chars().rev().take(3).collect::<Vec<_>>().into_iter().rev().chain(['\u{1}']).collect();
    let written = ENGINE.request("The captain").watermark(&key).max_tokens(60).seed(9).stop(ending).text().unwrap();
    assert_eq!((written.text, written.stop), (whole, Some(Stop::Length)));
}

#[test]
fn a_step_of_ones_own_is_part_of_the_distribution() {
    let vocabulary = ENGINE.reader().tokenizer().vocabulary();
    let token = (0..vocabulary.size() as TokenId).find(|&token| vocabulary.bytes(token) == b" the").unwrap();
    let written = ENGINE.request("The").max_tokens(5).through_end().transform(Only(token)).text().unwrap();
    assert_eq!(written.tokens, [token; 5]);
    // Several transforms, in order; together they allow nothing after the first token.
    let request = || ENGINE.request("The").max_tokens(5).through_end().transform(Only(token)).transform(NoRepeat);
    assert!(matches!(request().text(), Err(Error::Decode(_))));
    assert_eq!(request().max_tokens(1).text().unwrap().tokens, [token]);
    // They apply to drafts too.
    let drafted = ENGINE.request("The").max_tokens(40).seed(2).transform(NoRepeat);
    let text = drafted.clone().draft(&ENGINE).draft_tokens(4).text().unwrap();
    assert!(text.tokens.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", text.tokens);
    assert_eq!(drafted.clone().lookup().text().unwrap().tokens, drafted.text().unwrap().tokens);
}

/// Without a seed there is a new one each time, and the reported seed reproduces the text.
#[test]
fn a_seed_of_its_own() {
    let request = || ENGINE.request("The captain").max_tokens(30);
    let (first, second) = (request().text().unwrap(), request().text().unwrap());
    assert!(first.seed != second.seed && first.text != second.text && first.seed < 1 << 53);
    assert_eq!(request().seed(first.seed).text().unwrap().text, first.text);
    let texts = request().texts(2).unwrap();
    assert_eq!(texts[1].seed, texts[0].seed + 1);
    // The defaults are those of the constants.
    let told = request().sampling(Sampling { top_p: Some(Sampling::TOP_P), ..Sampling::default() }).seed(first.seed);
    assert_eq!(told.text().unwrap().text, first.text);
    assert_eq!(ENGINE.request("").through_end().text().unwrap().tokens.len(), Request::MAX_TOKENS);
}

/// An option without effect is an error.
#[test]
fn what_is_asked_for_in_vain_is_said() {
    let fails = |request: Request<'_>, said: &str| {
        let error = request.max_tokens(2).text().unwrap_err().to_string();
        assert!(error.contains(said), "{error:?} should say {said:?}");
    };
    let request = || ENGINE.request("The");
    fails(request().style(Style::default()), "asks for a style of JSON, which needs a JSON schema");
    fails(request().regex("a").style(Style::default()), "a style of JSON");
    fails(request().choice(["a"]).registry(Registry::default()), "a registry");
    fails(request().forced_text(ForcedText::Canonical), "a way to write forced text, which needs a constraint");
    fails(request().payload(3), "a payload, which needs a key that carries it");
    fails(request().mark_answer_only(), "a mark of the answer alone, which needs a key");
    fails(request().draft_tokens(3), "a number of drafts, which needs a drafter");
    fails(request().draft_tree(TreeShape::levels(&[2, 1])), "a number of drafts");
    fails(
        request().logprobs_mode(LogprobsMode::Processed),
        "a distribution of log-probabilities, which needs log-probabilities",
    );
    fails(request().stop(""), "a stop string is 0 bytes long");
    fails(request().temperature(-1.0), "temperature is -1, but must be from 0 to 100");
    fails(request().temperature(1e39), "000, but must be from 0 to 100");
    fails(request().dynatemp_exponent(3.0), "an exponent of dynamic temperature, which needs a range");
    fails(request().xtc_threshold(0.3), "a threshold of XTC, which needs a probability");
    fails(request().dry_base(3.0), "a rule of DRY, which needs a multiplier");
    fails(request().dry_sequence_breakers([""]), "a rule of DRY");
    fails(
        request().dry_multiplier(1.0).dry_allowed_length(51),
        "dry_allowed_length is 51, but must be a whole number, from 1 to 50",
    );
    let drawn = request().temperature(0.0).beam_search(&Beams::new(2).unwrap().sampled()).unwrap_err().to_string();
    assert!(drawn.contains("there is nothing to sample; raise it"), "{drawn}");
    fails(request().temperature(f64::NAN), "temperature is NaN");
    // Above 0, but too small for the numbers in rows: gives the most probable token.
    let coldest = request().temperature(1e-60).max_tokens(5).text().unwrap();
    assert_eq!(coldest.tokens, request().temperature(0.0).max_tokens(5).text().unwrap().tokens);
    // The forced-text option applies to a constraint of the caller.
    let constraint = ENGINE.constraint(verdigris::Grammar::regex("(the captain|the ship)").unwrap());
    let canonical = request().constraint(&constraint).forced_text(ForcedText::Canonical).seed(1).text().unwrap();
    assert_eq!(canonical.complete, Some(true));
}

/// The last token of a text is never read, so it comes one position after the context's end; constraints and forced
/// ends account for it.
#[test]
fn a_text_ends_one_token_behind_the_context() {
    let context = ENGINE.context_length();
    let word = ENGINE.reader().tokenizer().encode(" sea").unwrap()[0];
    let prompt = || Prompt::from(vec![word; context - 5]);
    let request = || ENGINE.request("").prompt(prompt()).max_tokens(50).seed(1);
    let plain = request().text().unwrap();
    assert_eq!((plain.tokens.len(), plain.stop), (6, Some(Stop::Context)));
    let forced = request().forced_eos_token_id(100).text().unwrap();
    assert_eq!(forced.tokens.iter().position(|&token| token == 100), Some(5), "{:?}", forced.tokens);
    let form = request().max_tokens(6).regex("QXQXQX").text().unwrap();
    assert_eq!((form.text.as_str(), form.complete), ("QXQXQX", Some(true)));
}

/// If a service has less memory than the model's context, constrained texts end within it.
#[test]
fn a_service_of_little_memory_ends_forms() {
    let capacity = Capacity { texts: 2, tokens: 64, kept: 0, rows: 64 };
    let service = Service::start(&ENGINE, capacity);
    let request = ENGINE.request("The captain").regex("( [a-z]+){1,400}!").max_tokens(200).seed(2);
    let (sender, pieces) = mpsc::channel();
    let send = move |piece| sender.send(piece).map_or(ControlFlow::Break(()), ControlFlow::Continue);
    let text = request.submit(&service, send).unwrap();
    let written = pieces.iter().find_map(|piece| match piece {
        Event::End(ending) => Some(ending.written(&request).unwrap()),
        _ => None,
    });
    drop(text);
    let written = written.unwrap();
    assert!(written.tokens.len() > 30 && written.text.ends_with('!'), "{:?}", written.text);
    assert_eq!(written.complete, Some(true));
}

/// Log-probabilities of a service's texts are computed in its own passes, within its memory, and equal those of each
/// text alone.
#[test]
fn a_service_reads_log_probabilities_within_its_memory() {
    let service = Service::start(&ENGINE, Capacity { texts: 3, tokens: 192, kept: 64, rows: 16 });
    let requests: Vec<Request<'_>> = (0..12)
        .map(|seed| {
            let mode = if seed % 2 == 0 { LogprobsMode::Raw } else { LogprobsMode::Processed };
            let request = ENGINE.request(PROMPTS[seed % 7]).max_tokens(10 + 5 * seed).seed(seed as u64);
            let request = request.top_k(50).logprobs(3).logprobs_mode(mode);
            if seed % 3 == 0 { request.stop("the") } else { request }
        })
        .collect();
    let (sender, pieces) = mpsc::channel();
    let submit = |(number, request): (usize, &Request<'_>)| {
        let sender = sender.clone();
        let send = move |piece| sender.send((number, piece)).map_or(ControlFlow::Break(()), ControlFlow::Continue);
        request.submit(&service, send).unwrap()
    };
    let texts: Vec<_> = requests.iter().enumerate().map(submit).collect();
    drop(sender);
    let (mut ended, mut needed) = (0, 0);
    for (number, piece) in pieces {
        let Event::End(ending) = piece else { continue };
        let alone = requests[number].clone().text().unwrap();
        // At the end nothing is left to compute.
        let written = if number % 2 == 0 { ending.at_once() } else { ending.written(&requests[number]).unwrap() };
        assert_eq!((&written.tokens, written.stop), (&alone.tokens, alone.stop), "text {number}");
        assert!(written.logprobs.is_some() && written.logprobs == alone.logprobs, "text {number}");
        (ended, needed) = (ended + 1, needed + 2 * (written.tokens.len() - 1));
    }
    drop(texts);
    assert_eq!(ended, 12);
    let statistics = service.statistics();
    assert!(statistics.read > needed, "each token is read twice: {} of {needed}", statistics.read);
}

/// Reports whether a text completes its constraint, even if its last token is the last allowed one.
#[test]
fn a_form_is_complete_or_not() {
    let complete = |pattern: &str, tokens| {
        let written = ENGINE.request("The").regex(pattern).max_tokens(tokens).seed(1).text().unwrap();
        (written.complete, written.stop)
    };
    assert_eq!(complete("[0-9]{3}", 200).0, Some(true));
    let stopped = ENGINE.request("The").regex("[0-9]{400}").stop("7").max_tokens(600).seed(1).text().unwrap();
    assert_eq!((stopped.complete, stopped.stop), (Some(false), Some(Stop::StopString)));
    let fault = ENGINE.request("The").regex("[a-z]{400}").max_tokens(5).seed(1).text().unwrap_err();
    assert!(matches!(fault, Error::NoRoom(NoRoom { tokens: 5, .. })), "{fault}");
    let exactly = ENGINE.request("The").regex("[0-9]{3}").seed(1).text().unwrap().tokens.len();
    assert_eq!(complete("[0-9]{3}", exactly), (Some(true), Some(Stop::Length)));
    assert_eq!(ENGINE.request("The").max_tokens(2).text().unwrap().complete, None);
}
