//! Writes the values of variables as a file of variables that gives the same values.
//!
//! Each value has a comment that says where it comes from, except in JSON, which has no comments. A value that may be a
//! secret is only named.

use serde_json::{Map, Value};

use super::encode::{key, one_line, quoted, yaml};
use super::language::VariableValue;
use super::syntax::Syntax;
use nomad_csi_model::diagnostic::SourceMap;
use nomad_csi_model::escape_json;

/// Writes values. Their places are in `sources`.
pub fn encode_values(values: &[VariableValue], sources: &SourceMap, syntax: Syntax) -> String {
    let parsed =
        |variable: &VariableValue| serde_json::from_str::<Value>(variable.value.as_deref()?).ok();
    if syntax == Syntax::Json {
        let members = values.iter().filter_map(|one| Some((one.name.clone(), parsed(one)?)));
        let members: Map<String, Value> = members.collect();
        return escape_json(&format!("{:#}\n", Value::Object(members)));
    }
    let mut out = String::new();
    for variable in values {
        let from = source(variable, sources);
        let Some(value) = parsed(variable) else {
            let line = format!("{}: sensitive, from {from}", variable.name);
            out.extend(["# ", one_line(&line).as_str(), "\n"]);
            continue;
        };
        out.extend(["# from ", one_line(&from).as_str(), "\n"]);
        match syntax {
            Syntax::Hcl => {
                out.extend([variable.name.as_str(), " = "]);
                hcl(&value, &mut out);
                out.push('\n');
            }
            Syntax::Yaml => {
                let member = Map::from_iter([(variable.name.clone(), value)]);
                out.push_str(&yaml(&Value::Object(member)));
            }
            Syntax::Json => {}
        }
    }
    out
}

/// Returns where a value comes from, with its file and line.
fn source(variable: &VariableValue, sources: &SourceMap) -> String {
    match variable.place {
        None => variable.from.clone(),
        Some(place) => {
            let (file, line) = (sources.name(place.source), sources.location(place).line);
            format!("{}, {file}:{line}", variable.from)
        }
    }
}

/// Writes a value as an HCL literal. No value has more than 64 levels.
fn hcl(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                hcl(item, out);
            }
            out.push(']');
        }
        Value::Object(members) if members.is_empty() => out.push_str("{}"),
        Value::Object(members) => {
            out.push_str("{ ");
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                out.extend([key(name).as_str(), " = "]);
                hcl(member, out);
            }
            out.push_str(" }");
        }
    }
}
