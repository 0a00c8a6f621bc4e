//! Embedding: the watermark as a step on a row of logits.

use std::sync::Arc;

use verdigris_logits::warp::MinP;
use verdigris_logits::{Row, TokenId, Transform};

use crate::scheme::{MAX_CONTEXT, Scheme, Stage};
use crate::strength::Strength;

/// The watermark as a [`Transform`].
///
/// Where fewer tokens come before a position than the scheme looks at, the row is unchanged, unless the scheme pads
/// them.
#[doc(alias = "WatermarkLogitsProcessor")]
#[derive(Clone, Debug)]
pub struct Embed {
    scheme: Arc<dyn Scheme>,
    strength: Strength,
    /// Rows with at most this entropy, in nats, are left unchanged.
    threshold: Option<f64>,
    /// The surprise of the text, in nats, before anything is marked.
    after: f64,
    /// The tokens among which noise chooses where the most probable token would be taken.
    near_best: Option<MinP>,
}

impl Embed {
    /// Embeds the mark of `scheme`. Schemes that act on noise ignore the strength.
    pub fn new(scheme: Arc<dyn Scheme>, strength: Strength) -> Self {
        let after = scheme.embed_rules().after;
        Self { scheme, strength, threshold: None, after, near_best: None }
    }

    /// Marks nothing until the text has a surprise of `nats`: the sum of `-ln p` over its tokens so far, with the
    /// probability `p` of each under the distribution that it was sampled from. Up to there the text is that of the
    /// model's own randomness. So texts of one prompt differ although a key always has the same noise after the same
    /// tokens, and a text that was too certain to reach a verdict anyway, such as a short answer, is left as it is
    /// (Christ, Gunn, Zamir, *Undetectable Watermarks for Language Models*, COLT 2024, section 4). The scheme's own
    /// value is 0 except for `native-gumbel`, where it is 7. Readers need not know it.
    ///
    /// Tokens without a row, which were certain, have no surprise.
    #[must_use]
    pub fn after(self, nats: f64) -> Self {
        Self { after: nats, ..self }
    }

    /// For texts that are not sampled: noise chooses among the tokens that are nearly as probable as the best, those
    /// that `near` keeps. Where there is only one of them, it is taken.
    #[must_use]
    pub fn near_best(self, near: MinP) -> Self {
        Self { near_best: Some(near), ..self }
    }

    /// Marks only rows whose distribution has more entropy than `threshold`, in nats: nearly certain tokens, as in much
    /// of code, are unchanged (Lee et al., *Who Wrote This Code?*, ACL 2024, section 3). The reader counts the same
    /// positions with [`Weighting::Sweet`](crate::weighted::Weighting::Sweet), for which it needs the model; without
    /// the model, the other positions are noise.
    #[doc(alias = "SWEET")]
    #[must_use]
    pub fn above_entropy(self, threshold: f64) -> Self {
        Self { threshold: Some(threshold), ..self }
    }

    /// Whether a row has enough entropy to be marked: see [`Embed::above_entropy`].
    pub fn has_choice(&self, row: &Row) -> bool {
        self.threshold.is_none_or(|threshold| row.entropy().is_some_and(|entropy| entropy > threshold))
    }

    /// The score of a token in a state, or `None` where nothing is marked, and in the public half of a key with a
    /// [public part](crate::Key::with_public_part). Assumes that the row [has choice](Embed::has_choice).
    pub fn score(&self, tail: &Tail, token: TokenId) -> Option<MarkScore> {
        let context = self.marked_context(tail)?;
        let mut observations = Vec::with_capacity(1);
        self.scheme.observe(&[context, &[token]].concat(), &mut observations);
        let score = observations.last().map(|observation| observation.score).filter(|score| !score.is_nan())?;
        let distribution = self.scheme.distribution();
        Some(MarkScore { score, green: f64::from(score) > distribution.mean(), colours: distribution.is_of_colours() })
    }

    /// The context of a row, if the row is marked.
    fn marked_context<'t>(&self, tail: &'t Tail) -> Option<&'t [TokenId]> {
        if tail.surprise < self.after {
            return None;
        }
        let context = tail.context(self.scheme.context_width())?;
        let has_come =
            self.scheme.embed_rules().memory > 0 && tail.history.contains(&self.scheme.context_name(context));
        (!has_come).then_some(context)
    }

    /// Adds a token of the prompt to a state without sampled tokens.
    pub fn advance_prompt(&self, tail: &mut Tail, token: TokenId) {
        *tail = self.start(&[tail.tokens(), &[token]].concat());
    }

    /// The stage at which it acts.
    pub fn stage(&self) -> Stage {
        self.scheme.embed_rules().stage
    }
}

/// The score of a token for a mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarkScore {
    /// The score: 1 for green and 0 for red, where there are colours.
    pub score: f32,
    /// Whether the score is above the mean of unmarked text: green, where there are colours.
    pub green: bool,
    /// Whether scores are colours.
    pub colours: bool,
}

/// The last tokens of a text, its surprise, and the contexts that its scheme has marked.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// The surprise of the text in nats, counted until the mark begins.
    surprise: f64,
    /// The last few tokens, oldest first.
    tokens: [TokenId; MAX_CONTEXT],
    len: usize,
    /// Names of contexts: a ring buffer whose oldest entry is at `oldest`. Copied when a branch first adds to it.
    history: Arc<Vec<u64>>,
    oldest: usize,
}

impl Tail {
    /// The last few tokens, oldest first.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens[..self.len]
    }

    fn push(&mut self, token: TokenId) {
        if self.len == MAX_CONTEXT {
            self.tokens.copy_within(1.., 0);
            self.len -= 1;
        }
        self.tokens[self.len] = token;
        self.len += 1;
    }

    fn context(&self, width: usize) -> Option<&[TokenId]> {
        (self.len >= width).then(|| &self.tokens[self.len - width..self.len])
    }

    fn remember(&mut self, name: u64, memory: usize) {
        let history = Arc::make_mut(&mut self.history);
        if history.len() < memory {
            history.push(name);
        } else {
            history[self.oldest] = name;
            self.oldest = (self.oldest + 1) % memory;
        }
    }
}

impl Transform for Embed {
    type State = Tail;

    fn start(&self, prompt: &[TokenId]) -> Tail {
        let (rules, width) = (self.scheme.embed_rules(), self.scheme.context_width());
        let history = Arc::new(Vec::with_capacity(rules.memory));
        let mut tail = Tail { history, ..Tail::default() };
        if let Some(padding) = rules.padding {
            (0..width).for_each(|_| tail.push(padding));
        }
        if rules.sees_prompt {
            // The prompt was not sampled, so its contexts do not count as used.
            prompt.iter().for_each(|&token| tail.push(token));
        }
        tail
    }

    fn apply(&self, tail: &Tail, row: &mut Row) {
        // The surprise of the next token is needed, and with it the row.
        if tail.surprise < self.after && !row.has_logits() {
            return;
        }
        let Some(context) = self.marked_context(tail) else { return };
        if !self.has_choice(row) {
            return;
        }
        if let Some(near) = &self.near_best {
            near.apply(&(), row);
        }
        self.scheme.mark(context, self.strength, row);
    }

    fn advance(&self, tail: &mut Tail, token: TokenId) {
        let memory = self.scheme.embed_rules().memory;
        if let Some(context) = tail.context(self.scheme.context_width()).filter(|_| memory > 0) {
            tail.remember(self.scheme.context_name(context), memory);
        }
        tail.push(token);
    }

    fn advance_from(&self, tail: &mut Tail, row: &Row, token: TokenId) {
        if tail.surprise < self.after {
            tail.surprise += row.surprise(token).unwrap_or(0.0);
        }
        self.advance(tail, token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, ContextFunction, Evidence, Gamma, Native};
    use verdigris_logits::{Purpose, Random, Sampler};

    const VOCABULARY: usize = 300;

    fn scheme(function: ContextFunction, width: usize) -> Arc<dyn Scheme> {
        let gamma = Gamma::new(0.25).unwrap();
        Arc::new(Native::new(&[3; 32], "id", "", gamma, Context::new(function, width).unwrap(), VOCABULARY))
    }

    fn noise(width: usize) -> Embed {
        let context = Context::new(ContextFunction::All, width).unwrap();
        let scheme = crate::dialects::native_gumbel::native_gumbel(&[3; 32], "", "", context, VOCABULARY).unwrap();
        Embed::new(Arc::new(scheme), Strength::Hard)
    }

    fn write(embed: Option<&Embed>, n: u64) -> Vec<TokenId> {
        let mut row = Row::default();
        let mut text = vec![1, 2, 3];
        let mut state = embed.map(|embed| embed.start(&text));
        for position in 0..n {
            row.load(&[0.0; VOCABULARY]);
            if let (Some(embed), Some(state)) = (embed, &state) {
                embed.apply(state, &mut row);
            }
            let token = Sampler::Categorical.sample(&row, Random::new(1).uniform(position, Purpose::Token)).unwrap();
            if let (Some(embed), Some(state)) = (embed, &mut state) {
                embed.advance(state, token);
            }
            text.push(token);
        }
        text
    }

    #[test]
    fn what_is_embedded_is_detected_by_its_key_alone() {
        for (function, width) in
            [(ContextFunction::All, 1), (ContextFunction::Min, 4), (ContextFunction::SelfSalted, 2)]
        {
            for strength in [Strength::default(), Strength::Hard] {
                let scheme = scheme(function, width);
                let marked = write(Some(&Embed::new(scheme.clone(), strength)), 200);
                let evidence = Evidence::of(scheme.clone(), &marked);
                assert!(evidence.z > 6.0 && evidence.ln_p < -30.0, "{function:?} {strength:?} {evidence:?}");
                if strength == Strength::Hard {
                    // All of the output is green; the three tokens of the prompt may not be.
                    assert!(evidence.score + 3.0 >= evidence.scored as f64, "{evidence:?}");
                }
                assert!(Evidence::of(scheme, &write(None, 200)).p() > 1e-3);
            }
        }
    }

    /// The scores reported while writing are those that a reader of the text finds.
    #[test]
    fn scores_of_writing_are_those_of_reading() {
        let scheme = scheme(ContextFunction::Min, 4);
        let embed = Embed::new(scheme.clone(), Strength::default());
        let text = write(Some(&embed), 100);
        let (mut observed, mut tail) = (Vec::new(), embed.start(&[]));
        scheme.observe(&text, &mut observed);
        for (i, &token) in text.iter().enumerate() {
            let expected = i.checked_sub(4).map(|i| observed[i].score);
            let said = embed.score(&tail, token);
            assert_eq!(said.map(|said| said.score), expected, "{i}");
            assert!(said.is_none_or(|said| said.colours && said.green == (said.score == 1.0)));
            embed.advance(&mut tail, token);
        }
        assert!(observed.iter().any(|o| o.score == 0.0) && observed.iter().any(|o| o.score == 1.0));
    }

    #[test]
    fn a_context_too_short_changes_nothing() {
        let embed = Embed::new(scheme(ContextFunction::All, 4), Strength::Hard);
        let mut row = Row::from(vec![0.0; VOCABULARY]);
        embed.apply(&embed.start(&[1, 2, 3]), &mut row);
        assert!(row.logits().iter().all(|&z| z == 0.0));
        embed.apply(&embed.start(&[1, 2, 3, 4]), &mut row);
        assert!(row.logits().contains(&f32::NEG_INFINITY));
    }

    #[test]
    fn what_is_nearly_certain_stays() {
        let embed = Embed::new(scheme(ContextFunction::All, 1), Strength::default()).above_entropy(0.69);
        let changes = |distribution: &[f32]| {
            let mut logits = vec![f32::NEG_INFINITY; VOCABULARY];
            // About every fourth token is green, so with this many of them at least one is.
            (0..VOCABULARY).zip(distribution.iter().cycle()).for_each(|(token, p)| logits[token] = p.ln());
            let mut row = Row::from(logits.clone());
            embed.apply(&embed.start(&[7]), &mut row);
            row.logits() != logits
        };
        // Two equal probabilities have .693 nats, however many nearly impossible tokens there are; 0.55 and 0.45 have
        // less.
        let rare = [1e-20; VOCABULARY];
        let of = |first: f32, second: f32| [&[first, second], &rare[2..]].concat();
        assert!(changes(&of(0.5, 0.5)));
        assert!(!changes(&of(0.55, 0.45)) && !changes(&of(1.0, 1e-20)));
        assert!(changes(&[1.0]));
    }

    #[test]
    fn hard_never_leaves_nothing() {
        let embed = Embed::new(scheme(ContextFunction::All, 1), Strength::Hard);
        let state = embed.start(&[7]);
        let mut all = Row::from(vec![0.0; VOCABULARY]);
        embed.apply(&state, &mut all);
        let red = all.logits().iter().position(|z| z.is_infinite()).unwrap();
        let mut only = Row::from(vec![f32::NEG_INFINITY; VOCABULARY]);
        only.logits_mut()[red] = 1.0;
        embed.apply(&state, &mut only);
        assert_eq!(only.logits()[red], 1.0);
    }

    #[test]
    fn a_vocabulary_smaller_than_the_row_leaves_the_padding_alone() {
        let embed = Embed::new(scheme(ContextFunction::All, 1), Strength::default());
        let mut row = Row::from(vec![0.0; VOCABULARY + 100]);
        embed.apply(&embed.start(&[7]), &mut row);
        assert!(row.logits()[VOCABULARY..].iter().all(|&z| z == 0.0));
    }

    /// Noise that favoured a token once would favour it every time, so a repeated context is not marked.
    #[test]
    fn noise_marks_no_context_twice() {
        let embed = noise(2).after(0.0);
        let mut state = embed.start(&[5, 6, 5, 6]);
        let left = |state: &Tail| {
            let mut row = Row::from(vec![0.0; VOCABULARY]);
            embed.apply(state, &mut row);
            row.logits().iter().filter(|z| z.is_finite()).count()
        };
        // 5-6 is in the prompt, which is not marked.
        assert_eq!(left(&state), 1);
        let fork = state.clone();
        [7, 5, 6].iter().for_each(|&token| embed.advance(&mut state, token));
        assert_eq!(left(&state), VOCABULARY, "5-6 has been marked before");
        assert_eq!(left(&fork), 1, "a branch has a memory of its own");
        embed.advance(&mut state, 9);
        assert_eq!(left(&state), 1);
    }

    /// A row of four tokens with equal probabilities, whose surprise is 1.39 nats, and many of which none is possible.
    fn four() -> Row {
        Row::from((0..VOCABULARY).map(|token| if token < 4 { 0.0 } else { f32::NEG_INFINITY }).collect::<Vec<f32>>())
    }

    #[test]
    fn the_mark_begins_after_the_surprise() {
        let left = |embed: &Embed, state: &Tail| {
            let mut row = four();
            embed.apply(state, &mut row);
            row.logits().iter().filter(|z| z.is_finite()).count()
        };
        for (nats, first) in [(None, 6), (Some(0.0), 0), (Some(1.3), 1), (Some(1.4), 2), (Some(2.8), 3)] {
            let embed = nats.map_or(noise(1), |nats| noise(1).after(nats));
            let mut state = embed.start(&[100, 101, 102, 103, 104, 105, 106, 107]);
            let mut sure = state.clone();
            for token in 0..12 {
                assert_eq!(left(&embed, &state), if token < first { 4 } else { 1 }, "{nats:?} at {token}");
                assert_eq!(embed.score(&state, 0).is_some(), token >= first, "what is reported is what is done");
                // The token came from the row that the step left, whose contexts never repeat.
                let mut row = Row::from(vec![f32::NEG_INFINITY; VOCABULARY]);
                (token..token + 4).for_each(|token| row.logits_mut()[token as usize] = 0.0);
                embed.advance_from(&mut state, &row, token);
                embed.advance(&mut sure, token);
                assert!(nats == Some(0.0) || left(&embed, &sure) == 4, "a certain token does not count");
            }
        }
    }

    #[test]
    fn without_sampling_noise_chooses_among_the_best() {
        let embed = noise(1).after(0.0).near_best(MinP::new(0.5).unwrap());
        let chosen = |context: TokenId, distribution: &[f32]| {
            let mut row = Row::from(distribution.iter().map(|p| p.ln()).collect::<Vec<f32>>());
            embed.apply(&embed.start(&[context]), &mut row);
            Sampler::Greedy.sample(&row, 0.0).unwrap()
        };
        let among = |distribution: &[f32]| {
            let mut counts = [0; 4];
            (0..200).for_each(|context| counts[chosen(context, distribution) as usize] += 1);
            counts
        };
        let [first, second, third, none] = among(&[0.4, 0.3, 0.21, 0.09]);
        assert!(first > second && second > third && third > 20 && none == 0, "{first} {second} {third}");
        assert_eq!(among(&[0.7, 0.3, 0.0, 0.0]), [200, 0, 0, 0], "a choice that is clear is not overturned");
    }
}
