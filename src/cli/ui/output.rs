//! `-o`: the forms in which objects are printed.
//!
//! The JSON is the server's own document, untouched and in its own key order; YAML, `name` and
//! `jsonpath` are made from it, so that what a script reads does not depend on what this program
//! understands of it.

use serde_json::Value;
use serde_json_path::JsonPath;

/// A form.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// The server's own JSON.
    Json,
    /// The same as YAML.
    Yaml,
    /// IDs, one a line.
    Name,
    /// What an RFC 9535 expression selects, one match a line.
    JsonPath(JsonPath),
}

impl Output {
    /// The words for `-o`, `jsonpath=` with its sign.
    pub(crate) const WORDS: [&'static str; 6] =
        ["table", "wide", "json", "yaml", "name", "jsonpath="];

    /// Reads the value of `-o`.
    ///
    /// # Errors
    /// A sentence for people.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "table" => return Ok(Self::Table),
            "wide" => return Ok(Self::Wide),
            "json" => return Ok(Self::Json),
            "yaml" => return Ok(Self::Yaml),
            "name" => return Ok(Self::Name),
            _ => {}
        }
        let Some(expression) = text.strip_prefix("jsonpath=") else {
            let words = Self::WORDS.join(", ");
            return Err(format!("the forms are {words}EXPRESSION"));
        };
        JsonPath::parse(expression)
            .map(Self::JsonPath)
            .map_err(|error| {
                let hint = if expression.starts_with('$') {
                    String::new()
                } else {
                    "; an expression starts with `$`, such as `$.ID` or `$[*].ID`".to_owned()
                };
                format!(
                    "not an RFC 9535 expression: {} at character {}{hint}",
                    error.message(),
                    error.position() + 1
                )
            })
    }

    /// The document in this form; `None` for the forms that are laid out for people.
    pub(crate) fn machine(&self, document: &Value) -> Option<String> {
        match self {
            Self::Table | Self::Wide => None,
            Self::Json => Some(json_text(document)),
            Self::Yaml => Some(serde_yaml::to_string(document).unwrap_or_default()),
            Self::Name => Some(names(document)),
            Self::JsonPath(path) => {
                let lines = path.query(document).all().into_iter().map(line);
                Some(lines.collect())
            }
        }
    }

    /// Whether it shows more than the table.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self, Self::Wide)
    }
}

/// JSON for people and machines, ending in a line end.
pub(crate) fn json_text(document: &Value) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

fn names(document: &Value) -> String {
    let of = |object: &Value| object.get("ID").map(line).unwrap_or_default();
    match document {
        Value::Array(list) => list.iter().map(of).collect(),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            of(document)
        }
    }
}

fn line(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{value}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(form: &str, document: &Value) -> String {
        let output = Output::parse(form).expect("the form is known");
        output.machine(document).expect("it is for machines")
    }

    #[test]
    fn documents_are_printed_in_every_form() {
        let list = json!([{"ID": "db0", "Capacity": 9_223_372_036_854_775_807_u64, "Name": "yes"}, {"ID": "b"}]);
        for (form, expected) in [
            ("name", "db0\nb\n"),
            ("jsonpath=$[*].ID", "db0\nb\n"),
            ("jsonpath=$[0].Capacity", "9223372036854775807\n"),
            ("jsonpath=$[?@.ID == 'b']", "{\"ID\":\"b\"}\n"),
            ("jsonpath=$.nothing", ""),
            (
                "yaml",
                "- ID: db0\n  Capacity: 9223372036854775807\n  Name: \"yes\"\n- ID: b\n",
            ),
        ] {
            assert_eq!(shown(form, &list), expected, "{form}");
        }
        assert_eq!(shown("name", &list[0]), "db0\n");
        assert!(shown("json", &list).starts_with("[\n  {\n    \"ID\": \"db0\",\n"));
    }

    #[test]
    fn what_is_no_form_is_refused_in_words() {
        for (form, expected) in [
            (
                "xml",
                "the forms are table, wide, json, yaml, name, jsonpath=EXPRESSION",
            ),
            ("jsonpath={.ID}", "an expression starts with `$`"),
            ("jsonpath=$[", "not an RFC 9535 expression"),
        ] {
            let error = Output::parse(form).expect_err("it is no form");
            assert!(error.contains(expected), "{error}");
        }
    }
}
