//! Checks every name in every expression before anything is evaluated, and finds used variables without a value.

use std::collections::{BTreeMap, BTreeSet};

use super::declarations::{Declarations, VolumeBlock};
use super::variables::Assigned;
use super::walk::for_each_expression;
use crate::expression::names::{Allowed, Availability, Names, Reference, check, references};
use crate::schema;
use crate::tree::{Entry, Node};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// Checks the names of all declarations. Returns for each slot of a variable the first place that uses it.
pub(super) fn check_names(
    declarations: &Declarations<'_, '_>,
    names: &mut Names,
    diagnostics: &mut Diagnostics,
) -> BTreeMap<u32, Span> {
    let variables: Vec<u32> =
        declarations.variables.keys().map(|name| names.variable(name)).collect();
    let locals: Vec<u32> = declarations.locals.keys().map(|name| names.local(name)).collect();
    let declared = |slots: &[u32], count: usize| {
        let mut declared = vec![false; count];
        for slot in slots {
            if let Some(place) = declared.get_mut(*slot as usize) {
                *place = true;
            }
        }
        declared
    };
    let (variables, locals) =
        (declared(&variables, names.variable_count()), declared(&locals, names.local_count()));
    let here = Availability::Available;
    let in_volume = Availability::Missing("it belongs in the fields of a volume");
    let everywhere = Allowed {
        names,
        declared_variables: &variables,
        declared_locals: &locals,
        var: here,
        local: here,
        each: in_volume,
        count: in_volume,
        volume: in_volume,
    };
    let mut checker = Checker { used: BTreeMap::new(), diagnostics };
    for variable in declarations.variables.values() {
        let allowed = Allowed {
            local: Availability::Missing("a variable cannot use local values"),
            ..everywhere
        };
        for entry in variable.validations.iter().flat_map(|validation| &validation.entries) {
            checker.used(&entry.value, &allowed);
        }
    }
    for entry in declarations.locals.values().flat_map(|local| &local.entries) {
        checker.used(&entry.value, &everywhere);
    }
    for (_, _, entry) in &declarations.sets {
        checker.used(&entry.value, &everywhere);
    }
    let before_id = Availability::Missing(BEFORE_ID);
    let in_layer = Allowed { each: here, count: here, volume: here, ..everywhere };
    for class in declarations.classes.values() {
        class.object.entries.iter().for_each(|entry| checker.unused(&entry.value, &in_layer));
    }
    for defaults in declarations.defaults.values() {
        for entry in &defaults.object.entries {
            let is_choice = entry.key.text == schema::CLASS;
            let volume = if is_choice { before_id } else { here };
            checker.unused(&entry.value, &Allowed { volume, ..in_layer });
        }
    }
    for volume in &declarations.volumes {
        checker.volume(volume, everywhere);
    }
    checker.used
}

/// Reports used variables that have no value.
pub(super) fn report_unset(
    declarations: &Declarations<'_, '_>,
    used: &BTreeMap<u32, Span>,
    (assigned, refused): (&[Option<Assigned>], &BTreeSet<u32>),
    names: &mut Names,
    diagnostics: &mut Diagnostics,
) {
    for (name, variable) in &declarations.variables {
        let slot = names.variable(name);
        let has_value = assigned.get(slot as usize).is_some_and(Option::is_some);
        // A value that does not fit is reported already.
        let is_refused = refused.contains(&slot);
        if let Some(place) = used.get(&slot).filter(|_| !has_value && !is_refused) {
            let message = format!("variable `{name}` has no value");
            let problem = Diagnostic::error(Code::SpecUnsetVariable, message)
                .label(*place, "used here")
                .label(variable.header, "declared here");
            diagnostics.push(problem.help(match variable.is_sensitive {
                true => format!("use NOMAD_CSI_VAR_{name} or `--var-file FILE`"),
                false => {
                    format!("use `--var {name}=VALUE`, `--var-file FILE` or NOMAD_CSI_VAR_{name}")
                }
            }));
        }
    }
}

/// Why fields that decide about the ID of a volume cannot use it.
const BEFORE_ID: &str = "it is not known before the volume has its ID";

struct Checker<'c> {
    used: BTreeMap<u32, Span>,
    diagnostics: &'c mut Diagnostics,
}

impl Checker<'_> {
    /// Checks the names in a node that is evaluated in any case.
    fn used(&mut self, node: &Node<'_>, allowed: &Allowed<'_>) {
        self.unused(node, allowed);
        self.note_uses(node);
    }

    fn note_uses(&mut self, node: &Node<'_>) {
        for_each_expression(node, &mut |expression| {
            for (reference, at) in references(&expression.root) {
                if let Reference::Variable(slot) = reference {
                    self.used.entry(slot).or_insert_with(|| expression.place.of(&at));
                }
            }
        });
    }

    fn unused(&mut self, node: &Node<'_>, allowed: &Allowed<'_>) {
        for_each_expression(node, &mut |expression| {
            for problem in check(&expression.root, allowed) {
                // The search goes through the text, and a problem that is only counted shows no place.
                let problem = match self.diagnostics.is_full() {
                    true => problem.into_diagnostic(expression.place),
                    false => problem.into_diagnostic_with(|part| expression.place_of(part)),
                };
                self.diagnostics.push(problem);
            }
        });
    }

    fn volume(&mut self, volume: &VolumeBlock<'_, '_>, everywhere: Allowed<'_>) {
        let entries = &volume.block.object.entries;
        let label = &volume.block.label.text;
        let has = |key: &str| entries.iter().any(|entry| entry.key.text == key);
        let each = format!("volume `{label}` has no `for_each`");
        let count = format!("volume `{label}` has no `count`");
        let is_there = |has: bool, reason| match has {
            true => Availability::Available,
            false => Availability::Missing(reason),
        };
        let instance = Allowed {
            each: is_there(has(schema::FOR_EACH), &each),
            count: is_there(has(schema::COUNT), &count),
            volume: Availability::Missing(BEFORE_ID),
            ..everywhere
        };
        let number = Allowed {
            each: Availability::Missing("the volumes of the block are not known yet"),
            count: Availability::Missing("the volumes of the block are not known yet"),
            ..instance
        };
        let fields = Allowed { volume: Availability::Available, ..instance };
        let allowed = |entry: &Entry<'_>| match &*entry.key.text {
            schema::COUNT | schema::FOR_EACH | schema::ENABLED => number,
            schema::CLASS | "id" | "source" => instance,
            _ => fields,
        };
        for entry in entries {
            self.used(&entry.value, &allowed(entry));
        }
    }
}
