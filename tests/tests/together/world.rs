//! A model with its experts and drafters, and the requests to it: three of four tokens, whose distributions can be
//! enumerated, and `tale`.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use verdigris::logits::TokenId;
use verdigris::logits::random::philox4x32;
use verdigris::models::DraftHead;
use verdigris::text::{ReasoningSyntax, Section};
use verdigris::watermark::dialects::synthid::{Bits, Score};
use verdigris::watermark::dialects::{native, native_gumbel, synthid};
use verdigris::watermark::{Context, ContextFunction, Scheme};
use verdigris::{
    Alpha, Beams, Dialect, Engine, Error, Gamma, Grammar, Key, ModelFolder, Reader, ReasoningFormat, Request,
    Steering as Members, Strength, Style, TreeShape, Written,
};
use verdigris_tests::harness::{engine, model, path};
use verdigris_tests::tiny_models::{Layers, SPREAD, engine as engine_of, write_assistant};

use crate::axes::{
    AFTER, ALPHA, Choice, Combination, DELTA, Draft, FREQUENCY, Form, GAMMA, GUIDANCE, Mark, PRESENCE, REPETITION, Run,
    Steering, TEMPERATURE, TOP_P,
};

pub(crate) struct World {
    /// The unsteered and the steered engines, in the order of [`Steering`].
    engines: [Engine; 3],
    pub base: Engine,
    pub expert: Engine,
    pub anti: Engine,
    pub drafter: Engine,
    feature: Option<DraftHead>,
    pub medusa: DraftHead,
    /// A head that guesses a block.
    pub block: Option<DraftHead>,
    /// An assistant of Gemma 4.
    pub assistant: Option<DraftHead>,
    pub(crate) prompt: &'static str,
    /// The prompt that guidance leads away from.
    pub negative: &'static str,
    pub pattern: &'static str,
    /// The markers of thoughts: the end of the prompt opens one.
    pub thoughts: &'static ReasoningSyntax,
    /// The marker that ends a thought.
    close: &'static str,
    /// The most tokens of a thought before its end marker.
    pub budget: usize,
    pub schema: Value,
    /// The most tokens of a text.
    pub(crate) tokens: usize,
    /// The number of tokens before a token that choose its mark.
    context: usize,
}

/// The bytes of a SynthID key: thirty layers.
const SYNTHID: usize = 30 * 8;

/// Dense models.
pub(crate) static TINY: LazyLock<World> = LazyLock::new(|| of_four_tokens([Layers::Dense; 4]));

/// A mixture of experts and an expert that is one, with dense models for the rest.
pub(crate) static MIXTURE: LazyLock<World> =
    LazyLock::new(|| of_four_tokens([Layers::Mixture, Layers::Mixture, Layers::Dense, Layers::Dense]));

/// A hybrid with an expert and a draft model of its kind.
pub(crate) static HYBRID: LazyLock<World> =
    LazyLock::new(|| of_four_tokens([Layers::Hybrid, Layers::Hybrid, Layers::Dense, Layers::Hybrid]));

/// A Gemma 4 with windows in some layers, and an assistant that reads its keys and values.
pub(crate) static GEMMA: LazyLock<World> =
    LazyLock::new(|| of_four_tokens([Layers::Windows, Layers::Dense, Layers::Dense, Layers::Dense]));

/// The world of a model, its expert and anti-expert, and its draft model.
fn of_four_tokens([layers, expert, anti, drafter]: [Layers; 4]) -> World {
    let base = layers.write(1).unwrap();
    let [expert, anti, drafter] =
        [(expert, 2), (anti, 3), (drafter, 4)].map(|(layers, seed)| engine_of(&layers.write(seed).unwrap().folder()));
    let medusa = DraftHead::load(&base.write_medusa(2, SPREAD, 5).unwrap(), &base.folder()).unwrap();
    let block = DraftHead::load(&base.write_dspark(SPREAD, 6), &base.folder()).unwrap();
    let assistant = || DraftHead::load(&write_assistant(&base, 7), &base.folder()).unwrap();
    World {
        engines: steered(|| engine_of(&base.folder()), &expert, &anti),
        base: engine_of(&base.folder()),
        expert,
        anti,
        drafter,
        feature: None,
        medusa,
        block: Some(block),
        assistant: (layers == Layers::Windows).then(assistant),
        // The tokens 12, 1, 12: the last one occurs twice.
        prompt: "12112",
        negative: "21",
        pattern: "(12|2)*1?2",
        thoughts: const { &ReasoningSyntax::new("tiny", &[("112", Section::Thought)], TINY_CLOSE) },
        close: TINY_CLOSE,
        budget: 1,
        schema: json!({"type": "integer", "minimum": 2, "maximum": 212}),
        tokens: 3,
        context: 1,
    }
}

/// The fixture `tale` with its drafters and draft heads.
pub(crate) static TALE: LazyLock<World> =
    LazyLock::new(|| of_fixtures("tale", "tale-small", ["models/tale-draft", "models/tale-medusa"], None));

pub(crate) static SMALL: LazyLock<World> = LazyLock::new(|| {
    let heads = ["golden/draft_heads/feature", "golden/draft_heads/medusa"];
    of_fixtures("tale-small", "tale-expert", heads, Some("golden/published_heads/dspark"))
});

fn of_fixtures(base: &str, drafter: &str, [feature, medusa]: [&str; 2], block: Option<&str>) -> World {
    let target = model(base);
    let head = |name: &str| DraftHead::load(&ModelFolder::at(path("fixtures").join(name)), &target).unwrap();
    let [expert, anti] = ["tale-expert", "tale-small"].map(engine);
    World {
        engines: steered(|| engine(base), &expert, &anti),
        base: engine(base),
        expert,
        anti,
        drafter: engine(drafter),
        feature: Some(head(feature)),
        medusa: head(medusa),
        block: block.map(head),
        assistant: None,
        prompt: "The captain",
        negative: "In the morning",
        pattern: "( [a-z]{1,9}){8,16}\\.",
        thoughts: const { &ReasoningSyntax::new("tale", &[("captain", Section::Thought)], TALE_CLOSE) },
        close: TALE_CLOSE,
        budget: 4,
        schema: json!({
            "type": "object", "additionalProperties": false, "required": ["name", "years", "says"],
            "properties": {
                "name": {"type": "string", "minLength": 3, "maxLength": 12},
                "years": {"type": "integer", "minimum": 0, "maximum": 99},
                "says": {"type": "string", "minLength": 30, "maxLength": 80},
            },
        }),
        tokens: 40,
        context: 2,
    }
}

/// It also ends within a token: `12`.
const TINY_CLOSE: &str = "2";
const TALE_CLOSE: &str = "</think>";

/// The secret with the given number.
fn secret(number: u32, bytes: usize) -> Vec<u8> {
    let words = (0..bytes as u32 / 16).flat_map(|block| philox4x32([block, number, 0, 0], [7, 0]));
    words.flat_map(u32::to_le_bytes).collect()
}

fn steered(base: impl Fn() -> Engine, expert: &Engine, anti: &Engine) -> [Engine; 3] {
    let pair = Members::new().pair(expert, anti, Alpha::constant(ALPHA).unwrap());
    [base(), base().steered_by(&pair).unwrap(), base().steered_by(&Members::new().guidance_scale(GUIDANCE)).unwrap()]
}

impl World {
    pub(crate) fn reader(&self) -> &Reader {
        self.base.reader()
    }

    /// The key with the given number.
    pub(crate) fn key(&self, mark: Mark, number: u32) -> Option<Key> {
        self.key_with(mark, Bits::Table, number)
    }

    /// The same, with SynthID's bits from a table or a hash.
    pub(crate) fn key_with(&self, mark: Mark, bits: Bits, number: u32) -> Option<Key> {
        let context = Context::new(ContextFunction::All, self.context).unwrap();
        let green =
            || Dialect::Native(native::Parameters { gamma: Gamma::new(GAMMA).unwrap(), context, payload_bits: None });
        let (dialect, bytes) = match mark {
            Mark::Nothing => return None,
            Mark::Hard | Mark::Soft => (green(), 32),
            Mark::Gumbel => (Dialect::NativeGumbel(native_gumbel::Parameters::new(context)), 32),
            Mark::SynthId => (self.synthid(bits), SYNTHID),
        };
        let strength = if mark == Mark::Hard { Strength::Hard } else { Strength::soft(DELTA).unwrap() };
        let key = Key::new(secret(number, bytes), "together", dialect, Some(strength), self.reader().vocabulary());
        Some(key.unwrap())
    }

    /// The layers of a SynthID key, each as a separate scheme.
    pub(crate) fn layers(&self, number: u32) -> Vec<Arc<dyn Scheme>> {
        let vocabulary = self.reader().tokenizer().vocabulary().size();
        let layer = |bytes: &[u8]| self.synthid(Bits::Table).scheme(bytes, "", "", vocabulary).unwrap();
        secret(number, SYNTHID).chunks_exact(8).map(layer).collect()
    }

    fn synthid(&self, bits: Bits) -> Dialect {
        Dialect::Synthid(synthid::Parameters { bits, ngram_len: self.context + 1, score: Score::Mean })
    }

    /// The grammar of the constraint on an answer.
    pub(crate) fn grammar(&self, form: Form) -> Option<Grammar> {
        match form {
            Form::Free => None,
            Form::Regex | Form::Thought => Some(Grammar::regex(self.pattern).unwrap()),
            Form::JsonSchema => Some(Grammar::json_schema(&self.schema, Style::default()).unwrap()),
        }
    }

    /// The thought of a text, with its end marker, and the answer; `None` if the thought has no end.
    fn sections<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        text.find(self.close).map(|at| text.split_at(at + self.close.len()))
    }

    /// Whether all tokens of a text are part of its thought.
    pub(crate) fn is_thought(&self, of: Form, tokens: &[TokenId]) -> bool {
        of == Form::Thought && self.sections(&self.reader().tokenizer().decode(tokens)).is_none()
    }

    /// The number of tokens before the second token of the answer: as far as the mark of a thought reaches.
    pub(crate) fn answer_begins(&self, of: Form, tokens: &[TokenId]) -> usize {
        let has_answer = |end: &usize| {
            let text = self.reader().tokenizer().decode(&tokens[..*end]);
            self.sections(&text).is_some_and(|(_, answer)| !answer.is_empty())
        };
        if of == Form::Thought { (0..=tokens.len()).find(has_answer).unwrap_or(0) } else { 0 }
    }

    /// Checks with another library whether a whole text matches a constraint.
    pub(crate) fn judge_all(&self, form: Form) -> Box<dyn Fn(&str) -> bool + '_> {
        let judge = self.judge(form);
        match form {
            Form::Thought => Box::new(move |text| self.sections(text).is_some_and(|(_, answer)| judge(answer))),
            _ => judge,
        }
    }

    /// Checks with another library whether an answer matches a constraint.
    pub(crate) fn judge(&self, form: Form) -> Box<dyn Fn(&str) -> bool + Send + Sync> {
        match form {
            Form::Free => Box::new(|_| true),
            Form::Regex | Form::Thought => {
                let whole = regex::Regex::new(&format!("^(?:{})$", self.pattern)).unwrap();
                Box::new(move |text| whole.is_match(text))
            }
            Form::JsonSchema => {
                let schema = jsonschema::draft202012::new(&self.schema).unwrap();
                Box::new(move |text| serde_json::from_str(text).is_ok_and(|value| schema.is_valid(&value)))
            }
        }
    }

    /// The request of a combination, except for how it is run.
    pub(crate) fn request<'w>(&'w self, of: Combination, key: Option<&'w Key>, seed: u64) -> Request<'w> {
        let request = self.engines[of.steering as usize].request(self.prompt).max_tokens(self.tokens).seed(seed);
        let request = key.into_iter().fold(request, Request::watermark);
        let request = if of.mark.is_noise() { request.mark_after(AFTER) } else { request };
        let request = match of.steering {
            Steering::Guidance => request.negative_prompt(self.negative),
            Steering::Unsteered | Steering::ProxyTuning => request,
        };
        let request = match of.form {
            Form::Free => request,
            Form::Regex => request.regex(self.pattern),
            Form::JsonSchema => request.json_schema(self.schema.clone()),
            Form::Thought => {
                let format = ReasoningFormat::Syntax(self.thoughts);
                request.regex(self.pattern).reasoning_format(format).thinking_token_budget(self.budget)
            }
        };
        let request = match of.choice {
            Choice::Greedy => request.temperature(0.0),
            Choice::Sampling => request.temperature(TEMPERATURE).top_p(TOP_P),
            Choice::Penalties => {
                let request = request.temperature(TEMPERATURE).top_p(TOP_P).repetition_penalty(REPETITION);
                request.presence_penalty(PRESENCE).frequency_penalty(FREQUENCY)
            }
        };
        match of.draft {
            Draft::Nobody => request,
            Draft::Chain => request.draft(&self.drafter).draft_tokens(3),
            Draft::Tree => request.draft(&self.drafter).draft_tree(TreeShape::levels(&[2, 1])),
            Draft::Feature => request.draft_head(self.feature.as_ref().unwrap()).draft_tokens(3),
            Draft::Medusa => request.draft_head(&self.medusa).draft_tree(TreeShape::levels(&[2, 1])),
            Draft::Block => request.draft_head(self.block.as_ref().unwrap()).draft_tree(TreeShape::levels(&[2, 1])),
            Draft::Assistant => {
                request.draft_head(self.assistant.as_ref().unwrap()).draft_tree(TreeShape::levels(&[2, 1]))
            }
            Draft::Lookup => request.lookup().draft_tokens(3),
            Draft::LookupOr => request.lookup().draft(&self.drafter).draft_tokens(3),
            Draft::Expert => request.draft_by_expert().draft_tokens(3),
        }
    }

    /// The texts of a request, run in the given way.
    pub(crate) fn write(&self, request: Request<'_>, run: Run) -> Result<Vec<Written>, Error> {
        let beams = || Beams::new(3).unwrap();
        let found = match run {
            Run::One => return Ok(vec![request.text()?]),
            Run::Several => return request.texts(2),
            Run::Prompts => return request.prompts([self.prompt, self.negative]),
            Run::Contrastive => return Ok(vec![request.penalty_alpha(0.6).top_k(4).text()?]),
            Run::Beams => request.beam_search(&beams())?,
            Run::SampledBeams => request.beam_search(&beams().sampled())?,
            Run::StochasticBeams => request.stochastic_beams(3)?,
        };
        Ok(found.into_iter().map(|text| text.written).collect())
    }
}
