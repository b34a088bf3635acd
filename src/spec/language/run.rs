//! The phases of a run over the documents of the language.
//!
//! Everything is declared first; then every name is checked, variables get their values, local values are evaluated in the
//! order of their uses, and at last the volumes are made, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::declarations::Declarations;
use super::expand::{Expansion, Globals, expand};
use super::locals::evaluate_locals;
use super::names_check::{check_names, report_unset};
use super::number_texts::warn_of_numbers;
use super::value_sources::ValueSources;
use super::variable_values::{variable_values, variables_of_secrets};
use super::variables::{Assigned, GivenVariables, VariableFile, assign, validate_variables};
use crate::decode::Document;
use crate::expression::budget::Budget;
use crate::expression::names::Names;
use crate::tree::Object;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// What the documents of a run are read with.
pub(crate) struct Run<'r> {
    /// The documents in the order of their sources.
    pub(crate) documents: &'r [Document<'r>],
    pub(crate) given: &'r GivenVariables,
    pub(crate) files: &'r [VariableFile<'r>],
    /// True if errors are known already. They may explain what has no value here.
    pub(crate) has_errors: bool,
    /// True if every file of variables could be read.
    pub(crate) has_all_values: bool,
    /// The number of volumes that the run may still have.
    pub(crate) room: usize,
}

impl Run<'_> {
    /// Makes the volumes of objects, each with the index of its document.
    pub(crate) fn expand(
        &self,
        objects: &[(usize, &Object<'_>)],
        names: &mut Names,
        diagnostics: &mut Diagnostics,
    ) -> Expansion {
        let mut declarations = Declarations::default();
        let mut labels: BTreeMap<usize, BTreeMap<&str, Span>> = BTreeMap::new();
        for (at, (index, object)) in objects.iter().enumerate() {
            if let Some(document) = self.documents.get(*index) {
                let labels = labels.entry(*index).or_default();
                declarations.add((*index, at), object, document, labels, diagnostics);
            }
        }
        let hidden = warn_of_numbers(&declarations, self.documents, self.files, diagnostics);
        let mut misnamed = Diagnostics::default();
        let mut used = check_names(&declarations, names, &mut misnamed);
        let mut of_values = Diagnostics::default();
        let mut budget = Budget::run();
        let sources = (self.given, self.files);
        let (assigned, refused) =
            assign(&declarations.variables, sources, names, &mut budget, &mut of_values);
        let values = |assigned: &[Option<Assigned>]| {
            assigned.iter().map(|one| one.as_ref().map(|one| one.value.clone())).collect::<Vec<_>>()
        };
        let variables = values(&assigned);
        validate_variables(
            &declarations.variables,
            &assigned,
            &variables,
            names,
            &mut budget,
            &mut of_values,
        );
        let locals =
            evaluate_locals(&declarations.locals, &variables, names, &mut budget, &mut of_values);
        let sources = ValueSources::new(&declarations, &assigned, names);
        let globals = Globals { variables, locals, sources };
        let room = (self.room, &mut budget);
        let mut of_volumes = Diagnostics::default();
        let mut expansion = expand(&declarations, self.documents, &globals, room, &mut of_volumes);
        expansion.doubtful.extend(hidden);
        diagnostics.extend(without_repetitions(of_values, &misnamed));
        diagnostics.extend(without_repetitions(of_volumes, &misnamed));
        diagnostics.extend(misnamed);
        for (slot, place) in &expansion.used {
            used.entry(*slot).or_insert(*place);
        }
        let secret = variables_of_secrets(objects, &declarations.locals, names);
        let (variables, values) = (&declarations.variables, (&assigned[..], &secret));
        expansion.variables = variable_values(variables, values, names, &mut Budget::run());
        if self.has_all_values {
            report_unset(&declarations, &used, (&assigned, &refused), names, diagnostics);
        }
        if expansion.is_incomplete && !self.has_errors && !diagnostics.has_errors() {
            let message = "a value could not be evaluated, and no reason was found";
            diagnostics.push(Diagnostic::error(Code::Internal, message));
        }
        expansion
    }
}

/// Removes problems that are reported otherwise: those of names that are wrong for every volume, and those of a class that
/// a volume has too, which then name the volume.
fn without_repetitions(problems: Diagnostics, misnamed: &Diagnostics) -> Diagnostics {
    let start = |problem: &Diagnostic| {
        let first = problem.labels.first()?;
        Some((first.span.source, first.span.start))
    };
    let places: BTreeSet<_> = misnamed.iter().filter_map(start).collect();
    let identity = |problem: &Diagnostic| {
        let places = problem.labels.iter().map(|label| label.span).collect::<Vec<_>>();
        (problem.code, places, problem.message.clone())
    };
    let explained: BTreeSet<_> =
        problems.iter().filter(|problem| !problem.trail.is_empty()).map(identity).collect();
    let is_new = |problem: &Diagnostic| {
        let is_misnamed = problem.code == Code::SpecUnknownName
            && start(problem).is_some_and(|place| places.contains(&place));
        let is_explained = problem.trail.is_empty() && explained.contains(&identity(problem));
        !is_misnamed && !is_explained
    };
    problems.retain(is_new)
}
