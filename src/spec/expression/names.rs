//! Names of variables and local values, and the static check of every name.
//!
//! A run has one [`Names`], so that all its expressions mean the same value by the same slot. A
//! name is checked wherever it is written, also in a branch that is not taken, before anything is
//! evaluated.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::problem::{Problem, suggestion};
use super::tree::{Expr, ExprKind};
use nomad_csi_model::diagnostic::Code;

/// The names of variables and local values of a run, as slots.
#[derive(Default)]
pub(crate) struct Names {
    variables: Slots,
    locals: Slots,
}

#[derive(Default)]
struct Slots {
    by_name: HashMap<Rc<str>, u32>,
    names: Vec<Rc<str>>,
}

impl Slots {
    fn slot(&mut self, name: &str) -> u32 {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        // A file has fewer than 2^32 bytes, and so do all names.
        let slot = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let name: Rc<str> = name.into();
        self.names.push(Rc::clone(&name));
        self.by_name.insert(name, slot);
        slot
    }

    fn name(&self, slot: u32) -> &str {
        let name = usize::try_from(slot).ok().and_then(|slot| self.names.get(slot));
        name.map_or("", |name| name)
    }
}

impl Names {
    /// Returns the slot of a variable, a new one for a new name.
    pub(crate) fn variable(&mut self, name: &str) -> u32 {
        self.variables.slot(name)
    }

    /// Returns the slot of a local value, a new one for a new name.
    pub(crate) fn local(&mut self, name: &str) -> u32 {
        self.locals.slot(name)
    }

    /// Returns the name of a variable; an empty text if there is no such slot.
    pub(crate) fn variable_name(&self, slot: u32) -> &str {
        self.variables.name(slot)
    }

    /// Returns the name of a local value; an empty text if there is no such slot.
    pub(crate) fn local_name(&self, slot: u32) -> &str {
        self.locals.name(slot)
    }

    /// Returns how many slots variables have.
    pub(crate) fn variable_count(&self) -> usize {
        self.variables.names.len()
    }

    /// Returns how many slots local values have.
    pub(crate) fn local_count(&self) -> usize {
        self.locals.names.len()
    }
}

/// A variable or a local value that an expression uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reference {
    Variable(u32),
    Local(u32),
}

/// Returns the variables and local values of an expression, also in branches that are not taken.
pub(crate) fn references(expr: &Expr) -> impl Iterator<Item = (Reference, Range<u32>)> {
    expr.nodes().filter_map(|node| match node.kind {
        ExprKind::Variable(slot) => Some((Reference::Variable(slot), node.at.clone())),
        ExprKind::Local(slot) => Some((Reference::Local(slot), node.at.clone())),
        ExprKind::Constant(_)
        | ExprKind::List(_)
        | ExprKind::Map(_)
        | ExprKind::Template(_)
        | ExprKind::EachKey
        | ExprKind::EachValue
        | ExprKind::CountIndex
        | ExprKind::VolumeName(_)
        | ExprKind::Bound(_)
        | ExprKind::Get(_)
        | ExprKind::Index(_)
        | ExprKind::Condition(_)
        | ExprKind::Not(_)
        | ExprKind::Negate(_)
        | ExprKind::Binary(..)
        | ExprKind::Call(..)
        | ExprKind::Source(..)
        | ExprKind::For(_)
        | ExprKind::Unknown => None,
    })
}

/// Whether a name is available where an expression is written.
#[derive(Clone, Copy)]
pub(crate) enum Availability<'a> {
    Available,
    /// It is not, for this reason: "volume `pg` has no `for_each`".
    Missing(&'a str),
}

/// The names that are available where an expression is written.
#[derive(Clone, Copy)]
pub(crate) struct Allowed<'a> {
    pub(crate) names: &'a Names,
    /// True for the slot of each declared variable. A missing slot is not declared.
    pub(crate) declared_variables: &'a [bool],
    /// True for the slot of each declared local value.
    pub(crate) declared_locals: &'a [bool],
    pub(crate) var: Availability<'a>,
    pub(crate) local: Availability<'a>,
    pub(crate) each: Availability<'a>,
    pub(crate) count: Availability<'a>,
    pub(crate) volume: Availability<'a>,
}

/// Returns the problems of the names in an expression.
pub(crate) fn check(expr: &Expr, allowed: &Allowed<'_>) -> Vec<Problem> {
    expr.nodes().filter_map(|node| check_node(node, allowed)).collect()
}

fn check_node(node: &Expr, allowed: &Allowed<'_>) -> Option<Problem> {
    let (root, availability, declared) = match node.kind {
        ExprKind::Variable(slot) => {
            let declared = (slot, &allowed.names.variables, allowed.declared_variables);
            ("var", allowed.var, Some((declared, "variable", "variable")))
        }
        ExprKind::Local(slot) => {
            let declared = (slot, &allowed.names.locals, allowed.declared_locals);
            ("local", allowed.local, Some((declared, "local value", "locals")))
        }
        ExprKind::EachKey | ExprKind::EachValue => ("each", allowed.each, None),
        ExprKind::CountIndex => ("count", allowed.count, None),
        ExprKind::VolumeName(_) => ("volume", allowed.volume, None),
        ExprKind::Constant(_)
        | ExprKind::List(_)
        | ExprKind::Map(_)
        | ExprKind::Template(_)
        | ExprKind::Bound(_)
        | ExprKind::Get(_)
        | ExprKind::Index(_)
        | ExprKind::Condition(_)
        | ExprKind::Not(_)
        | ExprKind::Negate(_)
        | ExprKind::Binary(..)
        | ExprKind::Call(..)
        | ExprKind::Source(..)
        | ExprKind::For(_)
        | ExprKind::Unknown => return None,
    };
    if let Availability::Missing(reason) = availability {
        let end = node.at.start.saturating_add(u32::try_from(root.len()).unwrap_or(0));
        let message = format!("`{root}` is not available here: {reason}");
        let at = node.at.start..end.min(node.at.end);
        return Some(Problem::new(Code::SpecUnknownName, at, message).label("not available"));
    }
    let (declared, what, block) = declared?;
    undeclared(node, declared, what, block)
}

fn undeclared(
    node: &Expr,
    (slot, slots, declared): (u32, &Slots, &[bool]),
    what: &str,
    block: &str,
) -> Option<Problem> {
    let is_declared = usize::try_from(slot).ok().and_then(|slot| declared.get(slot));
    if is_declared == Some(&true) {
        return None;
    }
    let name = slots.name(slot);
    let known = slots.names.iter().zip(declared).filter(|(_, declared)| **declared);
    let known = known.map(|(name, _)| &**name);
    // The name is the end of `var.NAME`.
    let length = u32::try_from(name.len()).unwrap_or(0);
    let at = node.at.end.saturating_sub(length).max(node.at.start)..node.at.end;
    let problem = Problem::new(Code::SpecUnknownName, at, format!("unknown {what} `{name}`"));
    Some(
        problem
            .label(suggestion(name, known, "not declared"))
            .note(format!("{what}s are declared by `{block}` blocks in the files of this run")),
    )
}
