//! Evaluates local values, each after those that it uses.

use std::collections::{BTreeMap, BTreeSet};

use super::declarations::Local;
use super::values::{NoValue, entries_value};
use super::walk::for_each_expression;
use crate::expression::budget::Budget;
use crate::expression::evaluate::Scope;
use crate::expression::names::{Names, Reference, references};
use crate::expression::value::Value;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// Returns the values of all local values by slot; `None` for one that has none. Reports why.
pub(super) fn evaluate_locals(
    locals: &BTreeMap<&str, Local<'_, '_>>,
    variables: &[Option<Value>],
    names: &mut Names,
    budget: &mut Budget,
    diagnostics: &mut Diagnostics,
) -> Vec<Option<Value>> {
    let slots: Vec<(u32, &str)> = locals.keys().map(|name| (names.local(name), *name)).collect();
    let by_slot: BTreeMap<u32, &str> = slots.iter().copied().collect();
    let mut values: Vec<Option<Value>> = vec![None; names.local_count()];
    let mut uses: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut users: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (slot, name) in &slots {
        let mut used = BTreeSet::new();
        for entry in locals.get(name).iter().flat_map(|local| &local.entries) {
            for_each_expression(&entry.value, &mut |expression| {
                let all = references(&expression.root);
                used.extend(all.filter_map(|(reference, _)| match reference {
                    Reference::Local(slot) if by_slot.contains_key(&slot) => Some(slot),
                    Reference::Local(_) | Reference::Variable(_) => None,
                }));
            });
        }
        for other in &used {
            users.entry(*other).or_default().push(*slot);
        }
        uses.insert(*slot, used);
    }
    let is_free = |slot: &&(u32, &str)| uses.get(&slot.0).is_none_or(BTreeSet::is_empty);
    let mut ready: Vec<u32> = slots.iter().filter(is_free).map(|(slot, _)| *slot).collect();
    let mut left = uses;
    while let Some(slot) = ready.pop() {
        left.remove(&slot);
        let local = by_slot.get(&slot).and_then(|name| locals.get(name));
        if let Some(local) = local {
            let scope = Scope { variables, locals: &values, ..Scope::default() };
            match entries_value(&local.entries, &scope, budget) {
                Ok(value) => {
                    if let Some(place) = values.get_mut(slot as usize) {
                        *place = Some(value);
                    }
                }
                Err(NoValue::Reported) => {}
                Err(NoValue::Problem(problem)) => diagnostics.push(*problem),
            }
        }
        for user in users.get(&slot).into_iter().flatten() {
            if let Some(used) = left.get_mut(user) {
                used.remove(&slot);
                if used.is_empty() {
                    ready.push(*user);
                }
            }
        }
    }
    report_cycle(&left, &by_slot, locals, diagnostics);
    values
}

/// Limit of the members of a circle that its problem shows.
const MAX_SHOWN: usize = 20;

/// Reports one circle of those that are left.
fn report_cycle(
    left: &BTreeMap<u32, BTreeSet<u32>>,
    names: &BTreeMap<u32, &str>,
    locals: &BTreeMap<&str, Local<'_, '_>>,
    diagnostics: &mut Diagnostics,
) {
    let Some(first) = left.keys().next() else {
        return;
    };
    // Each of those that are left uses another one that is left, so this path ends in a circle.
    let mut path = vec![*first];
    let mut places = BTreeMap::from([(*first, 0)]);
    let cycle = loop {
        let used = path.last().and_then(|slot| left.get(slot)).and_then(|used| used.first());
        let Some(next) = used else {
            return;
        };
        if let Some(at) = places.get(next) {
            break path.split_off(*at);
        }
        places.insert(*next, path.len());
        path.push(*next);
    };
    let name = |slot: &u32| names.get(slot).copied().unwrap_or_default();
    let mut cycle = cycle;
    let first = cycle.iter().enumerate().min_by_key(|(_, slot)| name(slot)).map(|(at, _)| at);
    cycle.rotate_left(first.unwrap_or_default());
    let own = cycle.first().map(name).unwrap_or_default();
    let shown = cycle.iter().take(MAX_SHOWN).map(|slot| format!("`{}`", name(slot)));
    let mut members: Vec<String> = shown.collect();
    if let Some(others) = cycle.len().checked_sub(MAX_SHOWN).filter(|others| *others > 0) {
        members.push(format!("{others} more"));
    }
    members.push(format!("`{own}`"));
    let message = format!("local value `{own}` depends on itself: {}", members.join(", "));
    let mut problem = Diagnostic::error(Code::SpecDeclarationCycle, message);
    for slot in cycle.iter().take(MAX_SHOWN) {
        let entry = locals.get(name(slot)).and_then(|local| local.entries.first());
        if let Some(entry) = entry {
            problem = problem.label(entry.key.span, "in the circle");
        }
    }
    diagnostics.push(problem.help(Code::SpecDeclarationCycle.advice()));
}
