//! Options for drafts: the drafter, the number of drafts, and the rule by which they are accepted.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use verdigris::Request;
use verdigris::decoding::tree::MAX_NODES;
use verdigris::decoding::{Rule, TreeShape, Typical};

use crate::engine::{DraftSource, EngineOptions};
use crate::error::Failure;
use crate::number::whole;

#[derive(Args)]
pub(crate) struct DraftOptions {
    /// Draft with a smaller model, with a draft head that was trained for this model, or with the model's own layer for
    /// later tokens (mtp). The output distribution does not change
    #[arg(long, value_name = "PATH|NAME")]
    draft: Option<PathBuf>,
    /// Draft with the first --expert, which reads each draft once for both purposes
    #[arg(long, requires = "expert", conflicts_with = "draft")]
    draft_by_expert: bool,
    /// Draft by copying what followed the latest earlier occurrence of the last tokens; with another drafter, only
    /// where four tokens or more match
    #[arg(long)]
    lookup: bool,
    /// Draft exactly N tokens for each call of the model, at most 64 [default: the number that turns out to pay off,
    /// which is lower with --seed]
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    draft_tokens: Option<usize>,
    /// Draft a tree for each call of the model: N tokens for the next position, N after each of these for the one after
    /// it, and so on; at most 64 in all
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = whole::<usize>, conflicts_with = "draft_tokens")]
    draft_tree: Vec<usize>,
    /// The rule by which drafts are accepted
    #[arg(long, value_name = "RULE", value_enum, default_value_t)]
    draft_rule: DraftRule,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DraftRule {
    /// Each draft by itself: the output distribution does not change
    #[default]
    EachToken,
    /// A chain of drafts as a whole, which accepts more of them: the output distribution does not change
    Block,
    /// Drafts that the model finds likely enough (typical acceptance): changes the output distribution, and generate
    /// and batch say so
    Typical,
}

impl DraftOptions {
    /// Whether the number of drafts is given.
    fn are_counted(&self) -> bool {
        self.draft_tokens.is_some() || !self.draft_tree.is_empty()
    }

    /// Refuses what could not repeat the text of a seed; `seed` is the option that asks for that.
    fn check_repeatable(&self, seed: &str) -> Result<(), Failure> {
        if self.draft_rule != DraftRule::Typical || self.are_counted() {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{seed}--draft-rule typical needs --draft-tokens or --draft-tree: the automatic number of drafts depends \
             on timing, and with this rule the text of a seed would depend on it"
        )))
    }

    /// The same as [`DraftOptions::check`], for requests, which may have a seed.
    #[cfg(feature = "serve")]
    pub(crate) fn check_for_requests(&self) -> Result<(), Failure> {
        self.check_repeatable("")?;
        self.check(None)
    }

    /// Refuses options of drafts without a drafter, and a seed that could not repeat its text.
    pub(crate) fn check(&self, seed: Option<u64>) -> Result<(), Failure> {
        if seed.is_some() {
            self.check_repeatable("--seed with ")?;
        }
        if let Some(drafts) = self.draft_tokens.filter(|&drafts| drafts > MAX_NODES) {
            return Err(Failure::Usage(format!(
                "--draft-tokens is {drafts}, but must be at most {MAX_NODES} for each call: give a smaller number"
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
                "--draft-tree has {drafts} drafts for each call, but at most {MAX_NODES} are allowed: give smaller \
                 numbers"
            )));
        }
        let option = match () {
            () if self.are_asked_for() => return Ok(()),
            () if self.draft_tokens.is_some() => "--draft-tokens",
            () if !self.draft_tree.is_empty() => "--draft-tree",
            () if self.draft_rule != DraftRule::default() => "--draft-rule",
            () => return Ok(()),
        };
        Err(Failure::Usage(format!("{option} needs a drafter: --draft MODEL or --lookup")))
    }

    /// Whether a drafter is given.
    fn are_asked_for(&self) -> bool {
        self.draft.is_some() || self.draft_by_expert || self.lookup
    }

    /// The model or the head that drafts.
    pub(crate) fn drafter(&self, engine: &EngineOptions) -> Result<Option<DraftSource>, Failure> {
        self.drafter_from(|path| engine.drafter(path))
    }

    /// The same, loaded by a function of its path or name.
    pub(crate) fn drafter_from(
        &self,
        load: impl FnOnce(&Path) -> Result<DraftSource, Failure>,
    ) -> Result<Option<DraftSource>, Failure> {
        self.draft.as_deref().map(load).transpose()
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
            // The automatic number of drafts depends on timing, which must not affect a text that can be repeated.
            request = request.repeatable();
        }
        request.judged_by(match self.draft_rule {
            DraftRule::EachToken => Rule::EachToken,
            DraftRule::Block => Rule::Block,
            DraftRule::Typical => Rule::Typical(Typical::default()),
        })
    }
}
