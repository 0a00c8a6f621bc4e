//! Who drafts, how much, and what decides which drafts stand.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use verdigris::Request;
use verdigris::decoding::tree::MAX_NODES;
use verdigris::decoding::{Rule, TreeShape, Typical};

use crate::error::Failure;
use crate::model::{DraftSource, EngineOptions};
use crate::number::whole;

#[derive(Args)]
pub(crate) struct DraftOptions {
    /// Let a smaller model draft, or a draft head that was trained for this one. The output distribution does not
    /// change
    #[arg(long, value_name = "PATH|NAME")]
    draft: Option<PathBuf>,
    /// Let the first --expert draft, which reads each draft once for both
    #[arg(long, requires = "expert", conflicts_with = "draft")]
    draft_by_expert: bool,
    /// Draft by copying what followed the last earlier occurrence of the last tokens; beside another drafter, of four
    /// tokens or more
    #[arg(long)]
    lookup: bool,
    /// Draft just so many tokens for each call of the model, 64 at most [default: as many as turn out to pay, which
    /// with --seed are fewer]
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    draft_tokens: Option<usize>,
    /// Draft a tree for each call of the model: so many tokens for the next place, after each of them so many for the
    /// one after it, and so on; 64 in all at most
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = whole::<usize>, conflicts_with = "draft_tokens")]
    draft_tree: Vec<usize>,
    /// How it is decided which drafts are accepted
    #[arg(long, value_name = "RULE", value_enum, default_value_t)]
    draft_rule: DraftRule,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DraftRule {
    /// Each draft by itself: the output distribution does not change
    #[default]
    EachToken,
    /// A chain of drafts as a whole, of which more are accepted: the output distribution does not change
    Block,
    /// What the model finds likely enough (typical acceptance): this changes the output distribution, and the output says so
    Typical,
}

impl DraftOptions {
    /// Whether it is told how many tokens are drafted.
    fn are_counted(&self) -> bool {
        self.draft_tokens.is_some() || !self.draft_tree.is_empty()
    }

    /// Refuses what says something of drafts that nobody makes, and a seed that could not repeat its text.
    pub(crate) fn check(&self, seed: Option<u64>) -> Result<(), Failure> {
        if self.draft_rule == DraftRule::Typical && seed.is_some() && !self.are_counted() {
            return Err(Failure::Usage(
                "--seed with --draft-rule typical needs --draft-tokens or --draft-tree: how many drafts pay is a \
                 matter of time, and with this rule the text depends on it"
                    .into(),
            ));
        }
        if let Some(drafts) = self.draft_tokens.filter(|&drafts| drafts > MAX_NODES) {
            return Err(Failure::Usage(format!(
                "--draft-tokens is {drafts}, and {MAX_NODES} for each call are the most: give a smaller number"
            )));
        }
        if self.draft_tree.contains(&0) {
            return Err(Failure::Usage(
                "--draft-tree has a level without drafts: give numbers of 1 or more, such as 3,1".into(),
            ));
        }
        let nodes = |(level, all): (usize, usize), width: &usize| {
            let level = level.saturating_mul(*width);
            (level, level.saturating_add(all))
        };
        let (_, drafts) = self.draft_tree.iter().fold((1, 0), nodes);
        if drafts > MAX_NODES {
            return Err(Failure::Usage(format!(
                "--draft-tree has {drafts} drafts for each call, and {MAX_NODES} are the most: give smaller numbers"
            )));
        }
        let option = match () {
            () if self.are_asked_for() => return Ok(()),
            () if self.draft_tokens.is_some() => "--draft-tokens",
            () if !self.draft_tree.is_empty() => "--draft-tree",
            () if self.draft_rule != DraftRule::default() => "--draft-rule",
            () => return Ok(()),
        };
        Err(Failure::Usage(format!("{option} needs somebody who drafts: --draft MODEL or --lookup")))
    }

    /// Whether somebody drafts.
    fn are_asked_for(&self) -> bool {
        self.draft.is_some() || self.draft_by_expert || self.lookup
    }

    /// The model or the head that drafts.
    pub(crate) fn drafter(&self, engine: &EngineOptions) -> Result<Option<DraftSource>, Failure> {
        self.draft.as_deref().map(|path| engine.drafter(path)).transpose()
    }

    pub(crate) fn apply<'r>(
        &self,
        mut request: Request<'r>,
        drafter: Option<&'r DraftSource>,
        seed: Option<u64>,
    ) -> Request<'r> {
        if let Some(drafter) = drafter {
            request = drafter.draft(request);
        } else if self.draft_by_expert {
            request = request.draft_by_expert();
        }
        if self.lookup {
            request = request.lookup();
        }
        if let Some(tokens) = self.draft_tokens {
            request = request.draft_tokens(tokens);
        } else if !self.draft_tree.is_empty() {
            request = request.draft_tree(TreeShape::levels(&self.draft_tree));
        }
        if seed.is_some() && !self.are_counted() {
            // How many drafts pay is a matter of time, which must not show in a text that is to be repeated.
            request = request.repeatable();
        }
        request.judged_by(match self.draft_rule {
            DraftRule::EachToken => Rule::EachToken,
            DraftRule::Block => Rule::Block,
            DraftRule::Typical => Rule::Typical(Typical::default()),
        })
    }
}
