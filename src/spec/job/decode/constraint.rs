//! Decodes constraints: an operator with its operands, or a key that stands for an operator.

use super::fields::{FieldReader, Fields};
use crate::job::schema;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{Constraint, ConstraintOperator};

/// Keys that stand for an operator with their value.
const SHORTHANDS: [(&str, ConstraintOperator); 6] = [
    ("regexp", ConstraintOperator::Regexp),
    ("version", ConstraintOperator::Version),
    ("semver", ConstraintOperator::Semver),
    ("set_contains", ConstraintOperator::SetContains),
    ("set_contains_all", ConstraintOperator::SetContainsAll),
    ("set_contains_any", ConstraintOperator::SetContainsAny),
];

/// Keys that stand for an operator, if they are true.
const FLAGS: [(&str, ConstraintOperator); 3] = [
    ("distinct_hosts", ConstraintOperator::DistinctHosts),
    ("is_set", ConstraintOperator::IsSet),
    ("is_not_set", ConstraintOperator::IsNotSet),
];

impl<'t, 'a> FieldReader<'_> {
    /// Decodes all constraints of a job, a group or a task.
    pub(super) fn constraints(&mut self, fields: &Fields<'t, 'a>) -> Vec<Constraint> {
        let mut found = vec![];
        for entry in fields.all("constraint") {
            let place = fields.place.block("constraint", &found.len().to_string());
            let Some(object) = self.block(entry) else {
                continue;
            };
            self.places.insert(place.clone(), entry.key.span);
            let fields = self.fields(object, schema::CONSTRAINT, "a constraint", place);
            found.extend(self.constraint(&fields));
        }
        found
    }

    fn constraint(&mut self, fields: &Fields<'t, 'a>) -> Option<Constraint> {
        let mut constraint = Constraint {
            attribute: self.text(fields, "attribute").unwrap_or_default(),
            operator: ConstraintOperator::Equal,
            value: self.text(fields, "value").unwrap_or_default(),
        };
        let operator = self.text(fields, "operator").unwrap_or_default();
        match ConstraintOperator::parse_with_synonyms(&operator) {
            Some(operator) => constraint.operator = operator,
            None => {
                self.unknown_operator(fields, &operator);
                return None;
            }
        }
        for (key, operator) in SHORTHANDS {
            if let Some(value) = self.text(fields, key) {
                constraint.operator = operator;
                constraint.value = value;
            }
        }
        if let Some(attribute) = self.text(fields, "distinct_property") {
            constraint.operator = ConstraintOperator::DistinctProperty;
            constraint.attribute = attribute;
        }
        for (key, operator) in FLAGS {
            match self.boolean(fields, key) {
                Some(true) if operator == ConstraintOperator::DistinctHosts => {
                    constraint.operator = operator;
                    constraint.value = "true".to_owned();
                }
                Some(true) => constraint.operator = operator,
                Some(false) => return None,
                None => {}
            }
        }
        Some(constraint)
    }

    fn unknown_operator(&mut self, fields: &Fields<'t, 'a>, operator: &str) {
        let words = ConstraintOperator::ALL.iter().map(|one| one.as_str());
        let near = closest_match(operator, words.clone());
        let expected = || {
            let known: Vec<_> = words.map(|word| format!("`{word}`")).collect();
            format!("expected one of {}", known.join(", "))
        };
        let label = near.map_or_else(expected, |near| format!("did you mean `{near}`?"));
        let span = self.places.span(&fields.place.field("operator"));
        let message = format!("unknown operator `{operator}` of a constraint");
        let problem = Diagnostic::error(Code::JobUnknownWord, message);
        self.diagnostics.push(problem.label(span, label));
    }
}
