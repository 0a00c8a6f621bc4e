//! The options that can be combined, as data, and what is promised of each combination.

macro_rules! axis {
    ($(#[$about:meta])* $axis:ident { $($value:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $axis {
            $($value,)*
        }

        impl $axis {
            pub(crate) const ALL: &[Self] = &[$(Self::$value,)*];

            /// The name in tables.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }
    };
}

axis! {
    /// The way to run a request.
    Run {
        One = "one text",
        Several = "several texts",
        Prompts = "several prompts",
        Beams = "beams",
        SampledBeams = "beam sampling",
        StochasticBeams = "stochastic beams",
        Contrastive = "contrastive search",
    }
}

axis! {
    /// The drafter and the shape of its drafts.
    Draft {
        Nobody = "no drafts",
        Chain = "a chain of a draft model",
        Tree = "a tree of a draft model",
        Feature = "a feature drafter",
        Medusa = "Medusa heads",
        Block = "a block of DSpark",
        Assistant = "an assistant of Gemma 4",
        Lookup = "lookup",
        LookupOr = "lookup or a draft model",
        Expert = "the expert",
    }
}

axis! {
    Form {
        Free = "no form",
        Regex = "regex",
        JsonSchema = "JSON Schema",
        Thought = "regex after a thought",
    }
}

axis! {
    Mark {
        Nothing = "no mark",
        Hard = "hard",
        Soft = "soft",
        Gumbel = "Gumbel",
        SynthId = "SynthID",
    }
}

axis! {
    Steering {
        Unsteered = "not steered",
        ProxyTuning = "proxy-tuning",
        Guidance = "guidance",
    }
}

axis! {
    /// The method of choosing a token from its row.
    Choice {
        Greedy = "greedy",
        Sampling = "sampling",
        Penalties = "penalties",
    }
}

/// The sampling parameters of all sampled texts, the penalties of those that have some, and the strengths of marks and
/// steering.
pub(crate) const TEMPERATURE: f64 = 1.2;
pub(crate) const TOP_P: f64 = 0.9;
pub(crate) const REPETITION: f64 = 1.3;
pub(crate) const PRESENCE: f64 = 0.4;
pub(crate) const FREQUENCY: f64 = 0.2;
pub(crate) const GAMMA: f64 = 0.5;
pub(crate) const DELTA: f64 = 2.5;
/// The surprise after which noise marks a text: in some texts after the first token, in others later.
pub(crate) const AFTER: f64 = 0.5;
/// The share of the best token's probability from which noise chooses at temperature 0.
pub(crate) const NEAR_BEST: f64 = 0.5;
pub(crate) const ALPHA: f64 = 0.8;
pub(crate) const GUIDANCE: f64 = 1.5;

/// One value of each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Combination {
    pub run: Run,
    pub draft: Draft,
    pub form: Form,
    pub mark: Mark,
    pub steering: Steering,
    pub choice: Choice,
}

/// Plain sampled texts.
pub(crate) const PLAIN: Combination = Combination {
    run: Run::One,
    draft: Draft::Nobody,
    form: Form::Free,
    mark: Mark::Nothing,
    steering: Steering::Unsteered,
    choice: Choice::Sampling,
};

/// Two options that cannot be combined.
pub(crate) struct Refusal {
    pub options: [&'static str; 2],
    of: fn(&Combination) -> bool,
    /// Parts of the error message: the cause and the remedy.
    pub said: [&'static str; 2],
}

pub(crate) const REFUSALS: &[Refusal] = &[
    Refusal {
        options: ["marks of noise", "beams of all kinds, contrastive search"],
        of: |c| c.mark.is_noise() && c.run.is_search(),
        said: ["its noise chooses each token", "use a key of green lists"],
    },
    Refusal {
        options: ["drafts", "beams of all kinds, contrastive search"],
        of: |c| c.draft != Draft::Nobody && c.run.is_search(),
        said: ["drafts are guesses at the next samples of one text", "leave it out"],
    },
    Refusal {
        options: ["stochastic beams", "greedy"],
        of: |c| c.run == Run::StochasticBeams && c.choice == Choice::Greedy,
        said: ["only one text can be sampled", "raise it, or search with beams"],
    },
    Refusal {
        options: ["beam sampling", "greedy"],
        of: |c| c.run == Run::SampledBeams && c.choice == Choice::Greedy,
        said: ["there is nothing to sample", "raise it, or keep the best hypotheses instead"],
    },
    Refusal {
        options: ["drafts of the expert", "a model without one"],
        of: |c| c.draft == Draft::Expert && c.steering != Steering::ProxyTuning,
        said: ["drafting by an expert needs one", "steer the model by an expert"],
    },
];

/// The promise for a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The text of plain decoding with the same seed, token for token.
    Text,
    /// The distribution of plain decoding.
    Distribution,
    /// The best of the texts that the search has seen, by the same scores.
    Best,
    /// An error with the cause and the remedy.
    Refused,
}

impl Run {
    /// Whether texts are not sampled token by token.
    pub(crate) fn is_search(self) -> bool {
        matches!(self, Self::Beams | Self::SampledBeams | Self::StochasticBeams | Self::Contrastive)
    }
}

impl Draft {
    /// Whether drafts are sampled, rather than guesses at the target's samples.
    fn is_drawn(self) -> bool {
        !matches!(self, Self::Nobody | Self::Lookup)
    }
}

impl Mark {
    pub(crate) fn is_noise(self) -> bool {
        matches!(self, Self::Gumbel | Self::SynthId)
    }
}

impl Combination {
    /// The reasons to refuse it, of which there may be several.
    pub(crate) fn refusals(self) -> impl Iterator<Item = &'static Refusal> {
        REFUSALS.iter().filter(move |refusal| (refusal.of)(&self))
    }

    pub(crate) fn promise(self) -> Promise {
        match (self.run, self.choice) {
            _ if self.refusals().next().is_some() => Promise::Refused,
            (Run::Beams | Run::SampledBeams | Run::Contrastive, _) => Promise::Best,
            (Run::StochasticBeams, _) => Promise::Distribution,
            (_, Choice::Greedy) => Promise::Text,
            _ if self.draft.is_drawn() => Promise::Distribution,
            _ => Promise::Text,
        }
    }
}

/// The given runs and drafters, each with all constraints, marks, steering and choices.
pub(crate) fn all(ways: &[(Run, Draft)]) -> Vec<Combination> {
    let mut all = Vec::new();
    for &(run, draft) in ways {
        for &form in Form::ALL {
            for &mark in Mark::ALL {
                for &steering in Steering::ALL {
                    let each = Choice::ALL.iter();
                    all.extend(each.map(|&choice| Combination { run, draft, form, mark, steering, choice }));
                }
            }
        }
    }
    all
}

/// A run and drafter without other options, except for the expert that drafts.
pub(crate) fn alone((run, draft): (Run, Draft)) -> Combination {
    let steering = if draft == Draft::Expert { Steering::ProxyTuning } else { PLAIN.steering };
    Combination { run, draft, steering, ..PLAIN }
}

/// Every run with every drafter.
pub(crate) fn ways() -> Vec<(Run, Draft)> {
    Run::ALL.iter().flat_map(|&run| Draft::ALL.iter().map(move |&draft| (run, draft))).collect()
}
