//! Which volumes a block declares: one, or one per index of `count`, or one per key of `for_each`.

use std::collections::BTreeSet;

use super::values::{NoValue, node_value};
use crate::expression::budget::Budget;
use crate::expression::evaluate::Scope;
use crate::expression::value::{Kind, Value};
use crate::origin::{Instance, InstanceKey};
use crate::tree::Entry;
use crate::volume_spec::MAX_VOLUMES;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};

/// The volumes of one block.
pub(super) enum Instances {
    One,
    Several {
        list: Vec<OneInstance>,
        /// The position of the value of `count` or `for_each`.
        place: Span,
    },
}

/// One volume of a block.
pub(super) struct OneInstance {
    pub(super) origin: Option<Instance>,
    pub(super) index: Option<i64>,
    /// `each.key` and `each.value`.
    pub(super) each: Option<(Value, Value)>,
}

impl Instances {
    pub(super) fn into_list(self) -> Vec<OneInstance> {
        match self {
            Self::One => vec![OneInstance { origin: None, index: None, each: None }],
            Self::Several { list, .. } => list,
        }
    }
}

/// Returns the volumes of a block with these entries of `count` and `for_each`.
pub(super) fn instances_of(
    label: &str,
    [count, for_each]: [Option<&Entry<'_>>; 2],
    scope: &Scope<'_>,
    budget: &mut Budget,
) -> Result<Instances, NoValue> {
    match (count, for_each) {
        (None, None) => Ok(Instances::One),
        (Some(count), Some(for_each)) => Err(problem(
            Diagnostic::error(
                Code::SpecInstances,
                "`count` and `for_each` cannot be used together",
            )
            .label(for_each.key.span, "remove one of the two")
            .label(count.key.span, "first here"),
        )),
        (Some(entry), None) => {
            let value = node_value(&entry.value, scope, budget)?;
            counted(entry, &value, budget)
        }
        (None, Some(entry)) => {
            let value = match entry.list {
                None => node_value(&entry.value, scope, budget)?,
                Some(list) => return Err(no_stable_names(list)),
            };
            named(label, entry, &value, budget)
        }
    }
}

fn problem(problem: Diagnostic) -> NoValue {
    NoValue::Problem(Box::new(problem))
}

fn refuse(entry: &Entry<'_>, message: String, label: &str) -> NoValue {
    let refused = Diagnostic::error(Code::SpecInstances, message);
    problem(refused.label(entry.value.span, label))
}

fn refuse_sensitive(entry: &Entry<'_>) -> NoValue {
    let key = &entry.key.text;
    let message = format!("`{key}` has a sensitive value: its keys become volume IDs");
    problem(Diagnostic::error(Code::SpecSensitiveValue, message).label(entry.value.span, ""))
}

fn no_stable_names(at: Span) -> NoValue {
    let message = "`for_each` is a list of maps: volumes need stable names";
    problem(
        Diagnostic::error(Code::SpecInstances, message)
            .label(at, "expected a map, or a list of distinct texts")
            .help("write `{ for x in LIST : x.NAME => x }`"),
    )
}

fn too_many(entry: &Entry<'_>) -> NoValue {
    let key = &entry.key.text;
    let message = format!("`{key}` declares more than {MAX_VOLUMES} volumes");
    let code = Code::SpecTooManyVolumes;
    let refused = Diagnostic::error(code, message).label(entry.value.span, "");
    problem(refused.help(code.advice()))
}

fn counted(entry: &Entry<'_>, value: &Value, budget: &mut Budget) -> Result<Instances, NoValue> {
    if value.holds_sensitive() {
        return Err(refuse_sensitive(entry));
    }
    let is_wrong = |what: String, help: Option<&str>| {
        let message = format!("`count` is {what}, not a whole number of volumes");
        let refused = Diagnostic::error(Code::SpecInstances, message);
        let refused = refused.label(entry.value.span, "expected a number such as `3`");
        problem(match help {
            Some(help) => refused.help(help),
            None => refused,
        })
    };
    let count = match &value.kind {
        Kind::Integer(count) if *count >= 0 => *count,
        Kind::Integer(count) => return Err(is_wrong(count.to_string(), None)),
        Kind::Float(count) => return Err(is_wrong(count.to_string(), None)),
        Kind::Text(_) => {
            let help = "if it is a variable, set `type = number`";
            return Err(is_wrong("a text".to_owned(), Some(help)));
        }
        Kind::Null
        | Kind::Bool(_)
        | Kind::List(..)
        | Kind::Map(..)
        | Kind::Secret(_)
        | Kind::Unknown => return Err(is_wrong(value.kind_name().to_owned(), None)),
    };
    let indexes = u32::try_from(count).ok().filter(|count| *count as usize <= MAX_VOLUMES);
    let Some(indexes) = indexes else {
        return Err(too_many(entry));
    };
    let limit = |limit| NoValue::limit(limit, entry.value.span);
    budget.take_steps(indexes as usize).map_err(limit)?;
    let instance = |index: u32| OneInstance {
        origin: Some(Instance {
            key: InstanceKey::Index(index),
            place: entry.key.span,
            value: entry.value.span,
        }),
        index: Some(i64::from(index)),
        each: None,
    };
    Ok(Instances::Several { list: (0..indexes).map(instance).collect(), place: entry.value.span })
}

fn named(
    label: &str,
    entry: &Entry<'_>,
    value: &Value,
    budget: &mut Budget,
) -> Result<Instances, NoValue> {
    let instance = |key: &str, value: &Value| OneInstance {
        origin: Some(Instance {
            key: InstanceKey::Key(key.into()),
            place: entry.key.span,
            value: entry.value.span,
        }),
        index: None,
        each: Some((Value::text(key), value.clone())),
    };
    let limit = |limit| NoValue::limit(limit, entry.value.span);
    let list: Vec<OneInstance> = match &value.kind {
        // Values of a map may be sensitive, its keys may not.
        Kind::Map(items, _) if !value.is_sensitive => {
            if items.len() > MAX_VOLUMES {
                return Err(too_many(entry));
            }
            budget.take_steps(items.len()).map_err(limit)?;
            items.iter().map(|(key, item)| instance(key, item)).collect()
        }
        Kind::List(items, _) if !value.holds_sensitive() => {
            if items.len() > MAX_VOLUMES {
                return Err(too_many(entry));
            }
            budget.take_steps(items.len()).map_err(limit)?;
            let mut seen = BTreeSet::new();
            let mut list = vec![];
            for item in items.iter() {
                let Kind::Text(key) = &item.kind else {
                    return Err(match item.kind {
                        Kind::Map(..) => no_stable_names(entry.value.span),
                        Kind::Null
                        | Kind::Bool(_)
                        | Kind::Integer(_)
                        | Kind::Float(_)
                        | Kind::Text(_)
                        | Kind::List(..)
                        | Kind::Secret(_)
                        | Kind::Unknown => {
                            let message =
                                format!("`for_each` has {} in its list", item.kind_name());
                            refuse(entry, message, "expected a map, or a list of distinct texts")
                        }
                    });
                };
                if !seen.insert(key) {
                    let message = format!("`for_each` of `{label}` has `{key}` twice");
                    return Err(refuse(entry, message, "each text names one volume"));
                }
                list.push(instance(key, item));
            }
            list.sort_by(|a, b| key_of(a).cmp(key_of(b)));
            list
        }
        Kind::Map(..) | Kind::List(..) => return Err(refuse_sensitive(entry)),
        Kind::Null
        | Kind::Bool(_)
        | Kind::Integer(_)
        | Kind::Float(_)
        | Kind::Text(_)
        | Kind::Secret(_)
        | Kind::Unknown => {
            let message =
                format!("`for_each` is {}, not a map or a list of texts", value.kind_name());
            return Err(refuse(entry, message, "expected a map, or a list of distinct texts"));
        }
    };
    if let Some(empty) = list.iter().find(|one| key_of(one).is_empty()) {
        let message = format!("`for_each` of `{label}` has an empty key{}", key_of(empty));
        return Err(refuse(entry, message, "a key is part of the volume's ID"));
    }
    Ok(Instances::Several { list, place: entry.value.span })
}

fn key_of(instance: &OneInstance) -> &str {
    match instance.origin.as_ref().map(|origin| &origin.key) {
        Some(InstanceKey::Key(key)) => key,
        Some(InstanceKey::Index(_)) | None => "",
    }
}
