//! The reading steps that can be reached from a step without reading.
//!
//! Rules that begin with rules could be called along exponentially many paths, which differ only in where they return.
//! So each rule is entered once, and its stack is that of all its callers (Scott and Johnstone, *GLL parsing*, 2010).

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use smallvec::SmallVec;

use super::run::{CUT, Run, Stack, Thread, ThreadSet};
use crate::grammar::step::{RETURN, Rule, Step, StepIndex};
use crate::terminal::language::Language;

/// The number of contexts up to which they are searched one by one.
const FEW: usize = 16;

/// Where a rule returns to.
enum Context {
    /// A stack, from before.
    Outer(u32),
    /// The callers of a rule that has been entered.
    Callers {
        rule: Rule,
        /// The step after each call, and the context of the caller.
        callers: SmallVec<[(StepIndex, u32); 2]>,
        /// Whether the rule can end without reading.
        is_empty: bool,
    },
}

/// The steps that are still to be followed, each in its context.
struct Entering {
    contexts: Vec<Context>,
    /// The contexts of rules and of stacks, once there are more than a few.
    numbers: HashMap<(bool, u32), u32>,
    open: SmallVec<[(StepIndex, u32); 8]>,
    /// The forks and ends that have been followed.
    seen: HashSet<(StepIndex, u32)>,
    /// The reading steps that were found, with the states of their terminals.
    found: SmallVec<[(StepIndex, u32, u32); 8]>,
}

impl Entering {
    /// The context with these contents, and whether it is new.
    fn context(&mut self, is_rule: bool, of: u32) -> (u32, bool) {
        let known = match self.contexts.len() <= FEW {
            true => self.contexts.iter().position(|context| context.is(is_rule, of)).map(|at| at as u32),
            false => self.numbers.get(&(is_rule, of)).copied(),
        };
        if let Some(known) = known {
            return (known, false);
        }
        self.contexts.push(match is_rule {
            true => Context::Callers { rule: of, callers: SmallVec::new(), is_empty: false },
            false => Context::Outer(of),
        });
        let number = self.contexts.len() as u32 - 1;
        if self.contexts.len() == FEW + 1 {
            self.numbers.extend((0..).zip(&self.contexts).map(|(number, context)| (context.key(), number)));
        } else if self.contexts.len() > FEW {
            self.numbers.insert((is_rule, of), number);
        }
        (number, true)
    }

    /// A call: the rule is entered at most once in each position.
    fn call(&mut self, rule: Rule, entry: StepIndex, next: StepIndex, context: u32) {
        let (called, is_new) = self.context(true, rule);
        if is_new {
            self.open.push((entry, called));
        }
        let Context::Callers { callers, is_empty, .. } = &mut self.contexts[called as usize] else {
            unreachable!("it is the context of a rule")
        };
        // Each fork is followed once in a context, so few calls come twice.
        callers.push((next, context));
        if *is_empty {
            self.open.push((next, context));
        }
    }
}

impl Context {
    fn key(&self) -> (bool, u32) {
        match *self {
            Self::Outer(stack) => (false, stack),
            Self::Callers { rule, .. } => (true, rule),
        }
    }

    fn is(&self, is_rule: bool, of: u32) -> bool {
        self.key() == (is_rule, of)
    }
}

/// The number of threads from which on it pays to keep them.
const MANY: usize = 8;

/// The threads that steps lead to, where there are many. A text that is in the middle of a terminal, and may end it,
/// enters the same step after each byte.
#[derive(Default)]
pub(super) struct Entered {
    /// By step, whether any stack has many.
    has_many: Vec<bool>,
    known: HashMap<(StepIndex, u32), ThreadSet>,
    bytes: usize,
}

impl Entered {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn get(&self, at: StepIndex, stack: u32) -> Option<&ThreadSet> {
        if self.has_many.get(at as usize) != Some(&true) {
            return None;
        }
        self.known.get(&(at, stack))
    }

    fn keep(&mut self, at: StepIndex, stack: u32, entered: ThreadSet) {
        if self.has_many.len() <= at as usize {
            self.has_many.resize(at as usize + 1, false);
        }
        self.has_many[at as usize] = true;
        self.bytes += 2 * size_of::<((StepIndex, u32), ThreadSet)>() + size_of_val(&entered.threads[..]);
        self.known.insert((at, stack), entered);
    }
}

impl Run {
    /// Adds the threads of all reading steps that can be reached from a step without reading.
    pub(super) fn enter(&mut self, at: StepIndex, stack: u32, threads: &mut ThreadSet) {
        if let Some(known) = self.entered.get(at, stack) {
            threads.threads.extend_from_slice(&known.threads);
            threads.accepts |= known.accepts;
            threads.is_cut |= known.is_cut;
            return;
        }
        let before = threads.threads.len();
        let (accepts, is_cut) = (std::mem::take(&mut threads.accepts), std::mem::take(&mut threads.is_cut));
        self.enter_anew(at, stack, threads);
        if threads.threads.len() - before >= MANY {
            let entered = ThreadSet { threads: threads.threads[before..].to_vec(), ..*threads };
            self.entered.keep(at, stack, entered);
        }
        threads.accepts |= accepts;
        threads.is_cut |= is_cut;
    }

    fn enter_anew(&mut self, at: StepIndex, stack: u32, threads: &mut ThreadSet) {
        let mut entering = Entering {
            contexts: vec![Context::Outer(stack)],
            numbers: HashMap::new(),
            open: SmallVec::from_slice(&[(at, 0)]),
            seen: HashSet::new(),
            found: SmallVec::new(),
        };
        while let Some((at, context)) = entering.open.pop() {
            self.follow(at, context, &mut entering, threads);
        }
        let Entering { contexts, found, .. } = entering;
        let mut stacks: Vec<Option<u32>> = vec![None; contexts.len()];
        for (at, inner, context) in found {
            let stack = self.stack_of(context, &contexts, &mut stacks);
            threads.threads.push(Thread { at, inner, stack });
        }
    }

    fn follow(&mut self, at: StepIndex, context: u32, entering: &mut Entering, threads: &mut ThreadSet) {
        let at = self.grammar.open(at);
        match self.grammar.step(at) {
            Step::Read { next, .. } => {
                let next = *next;
                let terminal = self.grammar.terminal_at(at);
                let inner = terminal.start();
                if terminal.accepts(inner) {
                    entering.open.push((next, context));
                }
                entering.found.push((at, inner, context));
            }
            Step::Name { terminal, .. } => {
                let inner = self.grammar.terminal(*terminal).start();
                entering.found.push((at, inner, context));
            }
            &Step::Call { rule, next } => entering.call(rule, self.grammar.entry(rule), next, context),
            // Many paths can lead to one fork.
            Step::Fork(ways) => {
                if entering.seen.insert((at, context)) {
                    entering.open.extend(ways.iter().map(|&way| (way, context)));
                }
            }
            Step::Return => match &mut entering.contexts[context as usize] {
                Context::Callers { callers, is_empty, .. } => {
                    if !std::mem::replace(is_empty, true) {
                        entering.open.extend(callers.iter().copied());
                    }
                }
                Context::Outer(0) => threads.accepts = true,
                Context::Outer(CUT) => threads.is_cut = true,
                &mut Context::Outer(stack) => self.leave_stack(stack, entering),
            },
            Step::Inside(_) | Step::Unmade { .. } => unreachable!("it has been opened"),
        }
    }

    /// Follows what comes after the rule that a stack belongs to.
    fn leave_stack(&self, stack: u32, entering: &mut Entering) {
        match self.stack_at(stack) {
            &Stack::Address(rest, address) => {
                let (context, _) = entering.context(false, rest);
                entering.open.push((address, context));
            }
            Stack::Any(stacks) => {
                for &stack in stacks.iter() {
                    let (context, _) = entering.context(false, stack);
                    if entering.seen.insert((RETURN, context)) {
                        entering.open.push((RETURN, context));
                    }
                }
            }
            Stack::Cut => unreachable!("what follows it is unknown"),
        }
    }

    /// The stack of a context. Rules do not begin with themselves, except where they end with them too.
    fn stack_of(&mut self, context: u32, contexts: &[Context], stacks: &mut [Option<u32>]) -> u32 {
        let mut open = vec![context];
        while let Some(&at) = open.last() {
            if stacks[at as usize].is_some() {
                open.pop();
                continue;
            }
            let callers = match &contexts[at as usize] {
                &Context::Outer(stack) => {
                    stacks[at as usize] = Some(stack);
                    continue;
                }
                Context::Callers { callers, .. } => match callers[..] {
                    [(next, caller)] if next != RETURN => SmallVec::from_slice(&[(next, caller)]),
                    _ => after_tails(at, contexts),
                },
            };
            let before = open.len();
            open.extend(callers.iter().map(|&(_, caller)| caller).filter(|&caller| stacks[caller as usize].is_none()));
            if open.len() > before {
                continue;
            }
            let returns: SmallVec<[u32; 4]> = callers
                .iter()
                .map(|&(next, caller)| {
                    let stack = stacks[caller as usize].expect("it was found before");
                    // A rule whose caller would only return, returns to the caller's caller.
                    if next == RETURN { stack } else { self.push(stack, next) }
                })
                .collect();
            stacks[at as usize] = Some(match returns[..] {
                [stack] => stack,
                _ => self.any_stack(returns.into_iter()),
            });
        }
        stacks[context as usize].expect("it was found just now")
    }
}

/// The calls that a rule returns to, where calls at the end of a rule return to its callers. Those may call each other
/// in a cycle.
fn after_tails(context: u32, contexts: &[Context]) -> SmallVec<[(StepIndex, u32); 2]> {
    let (mut open, mut seen) = (vec![context], HashSet::from_iter([context]));
    let mut found: SmallVec<[(StepIndex, u32); 2]> = SmallVec::new();
    while let Some(at) = open.pop() {
        let Context::Callers { callers, .. } = &contexts[at as usize] else {
            found.push((RETURN, at));
            continue;
        };
        for &(next, caller) in callers {
            if next != RETURN {
                found.push((next, caller));
            } else if seen.insert(caller) {
                open.push(caller);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}
