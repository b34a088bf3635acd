//! Parsers of argument values.

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};

use nomad_csi_model::diagnostic::closest_match;
use nomad_csi_spec::schema;

/// Returns a parser that accepts the words of these values.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(all.map(word));
    words.try_map(move |text| {
        let value = all.into_iter().find(|one| word(*one) == text);
        value.ok_or("not one of the possible values")
    })
}

/// Returns a parser that refuses an empty text, which a script passes when its variable is not set.
pub(crate) fn not_empty() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// Parses the name of a field that drift can check.
///
/// # Errors
/// Returns a message if drift cannot check the field.
pub(crate) fn drift_field(text: &str) -> Result<String, String> {
    let fields: Vec<String> = schema::drift_fields().collect();
    if fields.iter().any(|field| field == text) {
        return Ok(text.to_owned());
    }
    let near = closest_match(text, fields.iter().map(String::as_str));
    Err(match near {
        Some(near) => format!("not a field that drift can check; did you mean `{near}`?"),
        None => format!("not a field that drift can check; the fields are: {}", fields.join(", ")),
    })
}
