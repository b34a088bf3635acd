//! Gives variables their values, and checks type and validations.
//!
//! From low to high: the default, the environment, files of variables in the order of the command line, and the
//! command's own values. Of several values for one name in the same place the last one applies. A variable without a value
//! is an error only where something uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::declarations::Variable;
use super::type_constraint::{Type, conform, literal, parse_type};
use super::values::{NoValue, entries_value, node_value};
use crate::expression::budget::Budget;
use crate::expression::evaluate::Scope;
use crate::expression::names::Names;
use crate::expression::value::{Kind, Value};
use crate::syntax::Syntax;
use crate::tree::{Entry, Object, ScalarKind, Value as NodeValue};
use nomad_csi_model::Secret;
use nomad_csi_model::diagnostic::{
    Code, Diagnostic, Diagnostics, Severity, SourceId, SourceMap, Span, closest_match,
};

/// Values of variables from outside of the specifications.
#[derive(Clone, Default)]
pub struct GivenVariables {
    /// Values from the environment, by the names of the variables. Empty values are no values.
    pub environment: BTreeMap<String, Secret>,
    /// Files of variables, in the order in which they apply.
    pub files: Vec<(SourceId, Syntax)>,
    /// Values of the command line, in their order.
    pub arguments: Vec<(String, Secret)>,
    /// The variables that files of other runs of the same command declare: a value of one is not reported here.
    pub declared_elsewhere: Arc<BTreeSet<String>>,
}

/// A file of variables.
pub(crate) struct VariableFile<'a> {
    pub(crate) object: Object<'a>,
    pub(crate) name: String,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    Default(Span),
    Environment,
    File(Span),
    CommandLine,
}

/// A value, and where it comes from.
pub(super) struct Assigned {
    pub(super) value: Value,
    pub(super) origin: ValueOrigin,
}

/// Gives each declared variable its value, by slot; `None` without one. Reports values that do not fit, and returns the slots
/// of their variables.
pub(super) fn assign(
    variables: &BTreeMap<&str, Variable<'_, '_>>,
    (given, files): (&GivenVariables, &[VariableFile<'_>]),
    names: &mut Names,
    budget: &mut Budget,
    diagnostics: &mut Diagnostics,
) -> (Vec<Option<Assigned>>, BTreeSet<u32>) {
    let values = GivenValues::of(given, files);
    report_undeclared(variables, &values, diagnostics);
    let mut refused = BTreeSet::new();
    let mut assigned: Vec<Option<Assigned>> = vec![];
    for (name, variable) in variables {
        let number = names.variable(name);
        let slot = number as usize;
        let errors = diagnostics.count(Severity::Error);
        let found = value_of(name, variable, &values, budget, diagnostics);
        if diagnostics.count(Severity::Error) > errors || values.is_unreadable(name, variable) {
            refused.insert(number);
        }
        if assigned.len() <= slot {
            assigned.resize_with(slot + 1, || None);
        }
        if let Some(place) = assigned.get_mut(slot) {
            *place = found;
        }
    }
    assigned.resize_with(names.variable_count().max(assigned.len()), || None);
    (assigned, refused)
}

fn value_of(
    name: &str,
    variable: &Variable<'_, '_>,
    values: &GivenValues<'_>,
    budget: &mut Budget,
    diagnostics: &mut Diagnostics,
) -> Option<Assigned> {
    let default = variable.default.first().map(|entry| &entry.value);
    let default_value = default.map(|_| literal_entries(&variable.default, budget));
    let kind = match variable.kind_text() {
        Some((text, span)) => match parse_type(&text) {
            Ok(kind) => kind,
            Err(problem) => {
                let exact = span.range().len() == text.len();
                let range =
                    span.start as usize + problem.at.start..span.start as usize + problem.at.end;
                let at = if exact { SourceMap::span(span.source, range) } else { span };
                diagnostics.push(
                    Diagnostic::error(Code::SpecVariableType, problem.message)
                        .label(at, problem.label),
                );
                return None;
            }
        },
        None => match &default_value {
            Some(Ok(value)) => Type::of(value),
            Some(Err(_)) => Type::Any,
            None => Type::String,
        },
    };
    let argument = values.arguments.get(name);
    let file = values.in_files(name);
    let environment = values.environment.get(name).filter(|text| !text.is_empty());
    if argument.is_some() && variable.is_sensitive {
        let message =
            format!("cannot use `--var` for `{name}`: other users can read the command line");
        let problem = Diagnostic::error(Code::CliSensitiveArgument, message)
            .label(variable.header, "a sensitive variable");
        diagnostics.push(problem.help(format!("use NOMAD_CSI_VAR_{name} or `--var-file`")));
        return None;
    }
    let (value, origin) = if let Some(text) = argument {
        (written(text, &kind), ValueOrigin::CommandLine)
    } else if let Some((entries, span)) = file {
        (literal_entries(entries, budget), ValueOrigin::File(span))
    } else if let Some(text) = environment {
        (written(text, &kind), ValueOrigin::Environment)
    } else {
        (default_value?, ValueOrigin::Default(default?.span))
    };
    let allows_null = default.is_some_and(|node| matches!(node.value, NodeValue::Null));
    // A part that could not be read is reported already.
    if values.is_unreadable(name, variable) {
        return None;
    }
    let value = value.map_err(|problem| format!("`{name}` {problem}"));
    let value = value.and_then(|value| match value.kind {
        Kind::Null if allows_null => Ok(value),
        Kind::Null => Err(format!("`{name}` is null, and its default is not")),
        Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Float(_)
        | Kind::Text(_)
        | Kind::List(..)
        | Kind::Map(..)
        | Kind::Secret(_)
        | Kind::Unknown => conform(value, &kind, name),
    });
    match value {
        Ok(value) => {
            let value = value.marked(variable.is_sensitive);
            Some(Assigned { value, origin })
        }
        Err(message) => {
            let message = match variable.is_sensitive {
                true => format!("invalid value of variable `{name}`, which is sensitive"),
                false => format!("variable {message}"),
            };
            let problem = Diagnostic::error(Code::SpecVariableType, message);
            let type_place = variable.kind.map_or(variable.header, |entry| entry.value.span);
            diagnostics.push(match origin {
                ValueOrigin::Default(span) => problem.label(span, "the default"),
                ValueOrigin::File(span) => {
                    problem.label(span, "the value").label(type_place, "declared here")
                }
                ValueOrigin::Environment => problem
                    .label(type_place, "declared here")
                    .note(format!("the value comes from NOMAD_CSI_VAR_{name}")),
                ValueOrigin::CommandLine => {
                    problem.label(type_place, "declared here").note("the value comes from `--var`")
                }
            });
            None
        }
    }
}

/// The given values by their names, so that each of many variables finds its value at once.
struct GivenValues<'g> {
    environment: &'g BTreeMap<String, Secret>,
    /// The last value of each name.
    arguments: BTreeMap<&'g str, &'g Secret>,
    /// The files in the order in which they apply, with the entries of each name.
    files: Vec<(&'g VariableFile<'g>, BTreeMap<&'g str, Vec<&'g Entry<'g>>>)>,
    declared_elsewhere: &'g BTreeSet<String>,
}

impl<'g> GivenValues<'g> {
    fn of(given: &'g GivenVariables, files: &'g [VariableFile<'g>]) -> Self {
        let arguments = given.arguments.iter().map(|(name, value)| (name.as_str(), value));
        let entries = |file: &'g VariableFile<'g>| {
            let mut by_name: BTreeMap<&str, Vec<&Entry<'_>>> = BTreeMap::new();
            for entry in &file.object.entries {
                by_name.entry(&*entry.key.text).or_default().push(entry);
            }
            (file, by_name)
        };
        Self {
            environment: &given.environment,
            arguments: arguments.collect(),
            files: files.iter().map(entries).collect(),
            declared_elsewhere: &given.declared_elsewhere,
        }
    }

    /// Returns whether the value of a variable has a part that could not be read.
    fn is_unreadable(&self, name: &str, variable: &Variable<'_, '_>) -> bool {
        if self.arguments.contains_key(name) {
            return false;
        }
        match self.in_files(name) {
            Some((entries, _)) => entries.iter().any(|entry| entry.value.has_invalid()),
            None => variable.default.iter().any(|entry| entry.value.has_invalid()),
        }
    }

    /// Returns the entries of a variable in the last file that has some, and their position.
    fn in_files(&self, name: &str) -> Option<(&[&'g Entry<'g>], Span)> {
        let entries = self.files.iter().rev().find_map(|(_, entries)| entries.get(name))?;
        Some((entries, entries.first()?.value.span))
    }
}

/// Finds declared names that are similar to others. Comparing takes time, so there are only so many comparisons in a run.
struct SimilarNames<'n> {
    /// The declared names, also of other runs, so that a name has the same suggestion in each run.
    declared: BTreeSet<&'n str>,
    comparisons_left: usize,
}

/// Limit of the comparisons of names with declared ones.
const MAX_COMPARISONS: usize = 200_000;

/// The length in bytes of the longest name that is compared.
const LONGEST_COMPARED: usize = 100;

impl<'n> SimilarNames<'n> {
    /// Returns the declared name that is most similar to another one.
    fn near(&mut self, name: &str) -> Option<&'n str> {
        if name.len() > LONGEST_COMPARED {
            return None;
        }
        self.comparisons_left = self.comparisons_left.checked_sub(self.declared.len())?;
        let short = self.declared.iter().filter(|known| known.len() <= LONGEST_COMPARED);
        closest_match(name, short.copied())
    }
}

/// Limit of the names that one message lists.
const MAX_LISTED: usize = 20;

/// Returns names as a message lists them.
fn listed(names: &[&str]) -> String {
    let shown: Vec<String> =
        names.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown.join(", "),
        others => format!("{} and {others} more", shown.join(", ")),
    }
}

/// Returns the value of a text of the command line or the environment.
fn written(text: &str, kind: &Type) -> Result<Value, String> {
    match kind {
        Type::String => Ok(Value::text(text)),
        Type::Any | Type::Number | Type::Bool | Type::List(_) | Type::Map(_) | Type::Object(_) => {
            let missing =
                "must be written as an HCL literal such as `3`, `true`, `[\"a\"]` or `{ a = 1 }`";
            literal(text).ok_or_else(|| missing.to_owned())
        }
    }
}

/// Returns the value of a literal of a file.
fn literal_entries(entries: &[&Entry<'_>], budget: &mut Budget) -> Result<Value, String> {
    let no_literal =
        || "is no literal: a default and a file of variables have literal values only".to_owned();
    let is_one = match entries {
        [only] => only.labels.is_empty(),
        several => {
            let list = several.first().and_then(|entry| entry.list);
            list.is_some() && several.iter().all(|entry| entry.list == list)
        }
    };
    if !is_one {
        return Err("is given twice, or as a block with a label".to_owned());
    }
    if entries.iter().any(|entry| entry.value.has_expression()) {
        return Err(no_literal());
    }
    let scope = Scope::default();
    let value = entries_value(entries, &scope, budget).map_err(|problem| match problem {
        NoValue::Problem(problem) if problem.code == Code::SpecDuplicateField => {
            "has a map with a key twice".to_owned()
        }
        NoValue::Problem(_) | NoValue::Reported => no_literal(),
    })?;
    match value.kind {
        Kind::Secret(_) | Kind::Unknown => Err(no_literal()),
        Kind::Null
        | Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Float(_)
        | Kind::Text(_)
        | Kind::List(..)
        | Kind::Map(..) => Ok(value),
    }
}

/// Checks the validations of all variables that have values.
pub(super) fn validate_variables(
    variables: &BTreeMap<&str, Variable<'_, '_>>,
    assigned: &[Option<Assigned>],
    values: &[Option<Value>],
    names: &mut Names,
    budget: &mut Budget,
    diagnostics: &mut Diagnostics,
) {
    let scope = Scope { variables: values, ..Scope::default() };
    for (name, variable) in variables {
        let slot = names.variable(name) as usize;
        let Some(Some(own)) = assigned.get(slot) else {
            continue;
        };
        for validation in &variable.validations {
            let field = |key: &str| validation.entries.iter().find(|entry| entry.key.text == key);
            let Some(condition) = field("condition") else {
                continue;
            };
            let value = node_value(&condition.value, &scope, budget);
            let holds = match value {
                Ok(value) => match value.kind {
                    Kind::Bool(holds) => holds,
                    _ => {
                        let message = format!(
                            "the condition is {}, not `true` or `false`",
                            value.kind_name()
                        );
                        diagnostics.push(
                            Diagnostic::error(Code::SpecWrongType, message)
                                .label(condition.value.span, ""),
                        );
                        continue;
                    }
                },
                Err(NoValue::Reported) => continue,
                Err(NoValue::Problem(problem)) => {
                    diagnostics.push(*problem);
                    continue;
                }
            };
            if holds {
                continue;
            }
            let reason =
                field("error_message").map(|entry| node_value(&entry.value, &scope, budget));
            let reason = match reason {
                Some(Ok(Value { kind: Kind::Text(text), is_sensitive: false })) => text.to_string(),
                _ => "its validation does not hold".to_owned(),
            };
            let message = format!("variable `{name}` is invalid: {reason}");
            let problem = Diagnostic::error(Code::SpecVariableInvalid, message);
            let problem = match own.origin {
                ValueOrigin::Default(span) | ValueOrigin::File(span) => {
                    problem.label(span, "the value")
                }
                ValueOrigin::Environment => {
                    problem.note(format!("the value comes from NOMAD_CSI_VAR_{name}"))
                }
                ValueOrigin::CommandLine => problem.note("the value comes from `--var`"),
            };
            diagnostics.push(problem.label(condition.value.span, "the condition"));
        }
    }
}

/// Reports values of variables that no file declares.
fn report_undeclared(
    variables: &BTreeMap<&str, Variable<'_, '_>>,
    values: &GivenValues<'_>,
    diagnostics: &mut Diagnostics,
) {
    let is_unknown =
        |name: &str| !variables.contains_key(name) && !values.declared_elsewhere.contains(name);
    let elsewhere = values.declared_elsewhere.iter().map(String::as_str);
    let declared = variables.keys().copied().chain(elsewhere).collect();
    let mut similar = SimilarNames { declared, comparisons_left: MAX_COMPARISONS };
    for name in values.arguments.keys().filter(|name| is_unknown(name)) {
        let message = format!("variable `{name}` is not declared");
        let problem = Diagnostic::error(Code::SpecUndeclaredVariable, message);
        diagnostics.push(match similar.near(name) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(Code::SpecUndeclaredVariable.advice()),
        });
    }
    for (file, entries) in &values.files {
        let mut unused: Vec<&Entry<'_>> = vec![];
        for (name, entries) in entries.iter().filter(|(name, _)| is_unknown(name)) {
            if let Some(declaration) = declaration_in_file(name, entries) {
                diagnostics.push(declaration);
                continue;
            }
            let Some(near) = similar.near(name) else {
                unused.extend(entries.first());
                continue;
            };
            let message = format!("variable `{name}` is not declared");
            for entry in entries {
                let problem = Diagnostic::error(Code::SpecUndeclaredVariable, message.clone());
                let label = format!("did you mean `{near}`?");
                diagnostics.push(problem.label(entry.key.span, label));
            }
        }
        unused.sort_by_key(|entry| entry.key.span.start);
        if let Some(first) = unused.first() {
            let names: Vec<&str> = unused.iter().map(|entry| &*entry.key.text).collect();
            let message = format!(
                "`{}` gives variables that no file declares: {}",
                file.name,
                listed(&names)
            );
            let problem = Diagnostic::warning(Code::SpecUndeclaredVariable, message);
            diagnostics.push(problem.label(first.key.span, "no effect"));
        }
    }
    let is_unset = |name: &str| {
        let is_given = values.arguments.contains_key(name)
            || values.environment.contains_key(name)
            || values.in_files(name).is_some();
        !is_given && variables.get(name).is_some_and(|variable| variable.default.is_empty())
    };
    for name in values.environment.keys().filter(|name| is_unknown(name)) {
        if let Some(near) = similar.near(name).filter(|near| is_unset(near)) {
            let message = format!("NOMAD_CSI_VAR_{name} gives a variable that no file declares");
            let problem = Diagnostic::warning(Code::SpecUndeclaredVariable, message);
            diagnostics.push(problem.help(format!("did you mean `NOMAD_CSI_VAR_{near}`?")));
        }
    }
}

/// Returns the problem of a block that declares something, in a file that gives values.
fn declaration_in_file(name: &str, entries: &[&Entry<'_>]) -> Option<Diagnostic> {
    let first = entries.first().filter(|entry| entry.value.is_object())?;
    let help = match (name, first.labels.is_empty()) {
        ("variable", false) => {
            "write `NAME = VALUE` here, and the `variable` block in a specification"
        }
        ("locals", true) => "move the `locals` block to a specification",
        _ => return None,
    };
    let message = format!("a file of variables cannot have a `{name}` block: it only gives values");
    let problem = Diagnostic::error(Code::SpecUndeclaredVariable, message);
    Some(problem.label(first.key.span, "a declaration").help(help))
}

impl Variable<'_, '_> {
    /// Returns the type that its block gives; `None` without one, and if it is no type.
    pub(super) fn declared_type(&self) -> Option<Type> {
        let (text, _) = self.kind_text()?;
        parse_type(&text).ok()
    }

    /// Returns the text of its type and the position of that text.
    fn kind_text(&self) -> Option<(String, Span)> {
        let entry = self.kind?;
        match &entry.value.value {
            NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Text => {
                Some((scalar.text.to_string(), entry.value.span))
            }
            _ => Some((self.kind_source.clone(), entry.value.span)),
        }
    }
}
