//! Checks documents against the JSON Schemas of this repository. Supports only the keywords that those files use;
//! `unevaluatedProperties` looks at the properties beside it.

use serde_json::Value;

/// Returns the violations of a schema by a document; `at` is the current path.
pub(crate) fn violations(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    match schema {
        Value::Bool(true) => return vec![],
        Value::Bool(false) => return vec![format!("{at}: nothing is allowed here")],
        _ => {}
    }
    let mut found = vec![];
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "$defs" | "else" => {}
            "if" => {
                let holds = violations(root, rule, value, at).is_empty();
                let other = schema.get("else").filter(|_| !holds);
                found.extend(other.into_iter().flat_map(|rule| violations(root, rule, value, at)));
            }
            "oneOf" => {
                let all = rule.as_array().expect("a list is required");
                let each: Vec<_> = all.iter().map(|one| violations(root, one, value, at)).collect();
                if each.iter().filter(|found| found.is_empty()).count() != 1 {
                    found.push(format!("{at}: not exactly one alternative matches: {each:?}"));
                }
            }
            "pattern" | "minimum" | "maximum" | "minProperties" | "maxProperties" => {
                found.extend(beyond_limit(keyword, rule, value, at));
            }
            "propertyNames" => {
                for key in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
                    found.extend(violations(root, rule, &Value::from(key.as_str()), at));
                }
            }
            "$ref" => {
                let path = rule.as_str().expect("a reference is a string").trim_start_matches('#');
                let target = root.pointer(path).expect("the reference has a target");
                found.extend(violations(root, target, value, at));
            }
            "const" if rule == value => {}
            "enum" if rule.as_array().expect("a list is required").contains(value) => {}
            "const" | "enum" => found.push(format!("{at}: {value} is not {rule}")),
            "type" => found.extend(of_type(rule, value, at)),
            "anyOf" => {
                let any = rule.as_array().expect("a list is required");
                let fits = |schema: &Value| violations(root, schema, value, at).is_empty();
                if !any.iter().any(fits) {
                    found.push(format!("{at}: {value} matches no alternative"));
                }
            }
            "items" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                for (index, item) in items.iter().enumerate() {
                    found.extend(violations(root, rule, item, &format!("{at}/{index}")));
                }
            }
            "required" => {
                let missing = rule.as_array().expect("a list is required").iter();
                let missing = missing
                    .filter(|key| value.get(key.as_str().expect("a key is a string")).is_none());
                found.extend(missing.map(|key| format!("{at}: {key} is missing")));
            }
            "properties" => {
                for (key, property) in rule.as_object().expect("an object is required") {
                    let below = value.get(key);
                    let of = |below| violations(root, property, below, &format!("{at}/{key}"));
                    found.extend(below.map(of).unwrap_or_default());
                }
            }
            "patternProperties" => {
                for (pattern, property) in rule.as_object().expect("an object is required") {
                    for (key, inner) in value.as_object().into_iter().flatten() {
                        if matches_pattern(pattern, key) {
                            let at = format!("{at}/{key}");
                            found.extend(violations(root, property, inner, &at));
                        }
                    }
                }
            }
            "additionalProperties" | "unevaluatedProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let patterns = schema.get("patternProperties").and_then(Value::as_object);
                let is_matched = |key: &str| {
                    let mut patterns = patterns.into_iter().flat_map(serde_json::Map::keys);
                    patterns.any(|pattern| matches_pattern(pattern, key))
                };
                for (key, inner) in value.as_object().into_iter().flatten() {
                    if known.is_some_and(|known| known.contains_key(key)) || is_matched(key) {
                        continue;
                    }
                    match rule {
                        Value::Bool(false) => {
                            found.push(format!("{at}: {key} is not in the schema"));
                        }
                        rule => {
                            found.extend(violations(root, rule, inner, &format!("{at}/{key}")));
                        }
                    }
                }
            }
            other => panic!("{at}: the checker does not support `{other}`"),
        }
    }
    found
}

fn matches_pattern(pattern: &str, key: &str) -> bool {
    regex::Regex::new(pattern).expect("the pattern is valid").is_match(key)
}

fn of_type(rule: &Value, value: &Value, at: &str) -> Option<String> {
    let is = |word: &Value| match word.as_str().expect("a type is a string") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: the checker does not support `{other}`"),
    };
    let fits = rule.as_array().map_or_else(|| is(rule), |words| words.iter().any(is));
    (!fits).then(|| format!("{at}: {value} is not of type {rule}"))
}

/// Returns the violation of a pattern or of a limit.
fn beyond_limit(keyword: &str, rule: &Value, value: &Value, at: &str) -> Option<String> {
    match keyword {
        "pattern" => {
            let pattern = regex::Regex::new(rule.as_str().expect("a pattern is a string"));
            let pattern = pattern.expect("the pattern is valid");
            let is_refused = value.as_str().is_some_and(|text| !pattern.is_match(text));
            is_refused.then(|| format!("{at}: {value} does not match {rule}"))
        }
        "minimum" | "maximum" => {
            let limit = rule.as_f64().expect("a number is required");
            let is_below = keyword == "minimum";
            let is_beyond = |is: f64| if is_below { is < limit } else { is > limit };
            let is_refused = value.as_f64().is_some_and(is_beyond);
            is_refused.then(|| format!("{at}: {value} is beyond the {keyword} {rule}"))
        }
        _ => {
            let limit = rule.as_u64().expect("a number is required");
            let count = value.as_object()?.len() as u64;
            let is_below = keyword == "minProperties";
            let is_refused = if is_below { count < limit } else { count > limit };
            is_refused.then(|| format!("{at}: {count} keys, beyond the {keyword} {rule}"))
        }
    }
}
