//! Gives variables their values, and checks type and validations.
//!
//! From low to high: the default, the environment, files of variables in the order of the command line, and the
//! command's own values. Of several values for one name in the same place the last one applies. A variable without a value
//! is an error only where something uses it.

use std::collections::{BTreeMap, BTreeSet};

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
    report_undeclared(variables, given, files, diagnostics);
    let mut refused = BTreeSet::new();
    let mut assigned: Vec<Option<Assigned>> = vec![];
    for (name, variable) in variables {
        let number = names.variable(name);
        let slot = number as usize;
        let errors = diagnostics.count(Severity::Error);
        let found = value_of(name, variable, (given, files), budget, diagnostics);
        if diagnostics.count(Severity::Error) > errors {
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
    (given, files): (&GivenVariables, &[VariableFile<'_>]),
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
    let argument = given.arguments.iter().rev().find(|(of, _)| of == name).map(|(_, text)| text);
    let file = files.iter().rev().find_map(|file| file.entries_of(name));
    let environment = given.environment.get(name).filter(|text| !text.is_empty());
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
        (literal_entries(&entries, budget), ValueOrigin::File(span))
    } else if let Some(text) = environment {
        (written(text, &kind), ValueOrigin::Environment)
    } else {
        (default_value?, ValueOrigin::Default(default?.span))
    };
    let allows_null = default.is_some_and(|node| matches!(node.value, NodeValue::Null));
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
                false => format!("invalid value of variable {message}"),
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

impl VariableFile<'_> {
    /// Returns the entries of a variable and their position.
    fn entries_of(&self, name: &str) -> Option<(Vec<&Entry<'_>>, Span)> {
        let of_name = self.object.entries.iter().filter(|entry| entry.key.text == name);
        let entries: Vec<_> = of_name.collect();
        let span = entries.first()?.value.span;
        Some((entries, span))
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
    let value = entries_value(entries, &scope, budget).map_err(|_| no_literal())?;
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
    given: &GivenVariables,
    files: &[VariableFile<'_>],
    diagnostics: &mut Diagnostics,
) {
    let near = |name: &str| closest_match(name, variables.keys().copied());
    for (name, _) in &given.arguments {
        if !variables.contains_key(name.as_str()) {
            let message = format!("variable `{name}` is not declared");
            let problem = Diagnostic::error(Code::SpecUndeclaredVariable, message);
            diagnostics.push(match near(name) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(Code::SpecUndeclaredVariable.advice()),
            });
        }
    }
    for file in files {
        let undeclared =
            file.object.entries.iter().filter(|entry| !variables.contains_key(&*entry.key.text));
        let (similar, others): (Vec<_>, Vec<_>) =
            undeclared.partition(|entry| near(&entry.key.text).is_some());
        for entry in similar {
            let name = &entry.key.text;
            let label =
                near(name).map(|near| format!("did you mean `{near}`?")).unwrap_or_default();
            let message = format!("variable `{name}` is not declared");
            let problem = Diagnostic::error(Code::SpecUndeclaredVariable, message);
            diagnostics.push(problem.label(entry.key.span, label));
        }
        let mut unused: Vec<String> =
            others.iter().map(|entry| format!("`{}`", entry.key.text)).collect();
        unused.dedup();
        if let Some(first) = others.first() {
            let message = format!(
                "`{}` gives variables that no file declares: {}",
                file.name,
                unused.join(", ")
            );
            let problem = Diagnostic::warning(Code::SpecUndeclaredVariable, message);
            diagnostics.push(problem.label(first.key.span, "no effect"));
        }
    }
    for name in given.environment.keys() {
        let unset = |near: &&str| {
            let is_given = given.arguments.iter().any(|(of, _)| of == near)
                || given.environment.contains_key(*near)
                || files
                    .iter()
                    .any(|file| file.object.entries.iter().any(|entry| entry.key.text == *near));
            !is_given && variables.get(near).is_some_and(|variable| variable.default.is_empty())
        };
        if let Some(near) =
            near(name).filter(|_| !variables.contains_key(name.as_str())).filter(unset)
        {
            let message = format!("NOMAD_CSI_VAR_{name} gives a variable that no file declares");
            let problem = Diagnostic::warning(Code::SpecUndeclaredVariable, message);
            diagnostics.push(problem.help(format!("did you mean `NOMAD_CSI_VAR_{near}`?")));
        }
    }
}

impl Variable<'_, '_> {
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
