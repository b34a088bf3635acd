//! References such as `${NOMAD_ALLOC_ID}` in the texts of a job: one reader for every place that replaces or judges them.
//!
//! A reference goes from `${` to the next `}`; one that another `${` interrupts is text. `attr["kernel.name"]` is another
//! spelling of `attr.kernel.name`, and `env["NAME"]` of `NAME`.

use std::borrow::Cow;

/// How references in the words of Nomad begin.
const NOMADS: [&str; 4] = ["NOMAD_", "attr.", "meta.", "node."];

/// A reference in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'t> {
    /// The reference as written, with `${` and `}`.
    pub written: &'t str,
    /// What it refers to, such as `attr.kernel.name`.
    pub name: Cow<'t, str>,
    /// True if it is in the words of Nomad, so that no shell can mean it.
    pub is_nomads: bool,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPart<'t> {
    /// Text that stays as it is.
    Literal(&'t str),
    /// A reference.
    Reference(Reference<'t>),
}

/// Returns the parts of a text, which together are the text.
pub fn text_parts(text: &str) -> Vec<TextPart<'_>> {
    let mut parts = vec![];
    let mut literal_from = 0;
    let mut at = 0;
    while let Some(start) = text[at..].find("${").map(|found| at + found) {
        let after = start + "${".len();
        let Some(end) = text[after..].find('}').map(|found| after + found) else {
            break;
        };
        // The last opening belongs to this end, and a search from each of them would take too long.
        if let Some(inner) = text[after..end].rfind("${") {
            at = after + inner;
            continue;
        }
        at = end + 1;
        if literal_from < start {
            parts.push(TextPart::Literal(&text[literal_from..start]));
        }
        parts.push(TextPart::Reference(Reference::new(&text[start..at], &text[after..end])));
        literal_from = at;
    }
    if literal_from < text.len() {
        parts.push(TextPart::Literal(&text[literal_from..]));
    }
    parts
}

impl<'t> Reference<'t> {
    fn new(written: &'t str, inner: &'t str) -> Self {
        let inner = inner.trim();
        let name = match indexed(inner) {
            Some(("env", key)) => Cow::Borrowed(key),
            Some((root, key)) => Cow::Owned(format!("{root}.{key}")),
            None => Cow::Borrowed(inner),
        };
        let is_nomads =
            inner.starts_with("env[") || NOMADS.iter().any(|start| name.starts_with(start));
        Self { written, name, is_nomads }
    }
}

/// Returns the root and the key of `root["key"]`.
fn indexed(inner: &str) -> Option<(&str, &str)> {
    let (root, rest) = inner.split_once('[')?;
    let key = rest.strip_suffix(']')?.trim().strip_prefix('"')?.strip_suffix('"')?;
    let is_root = ["attr", "env", "meta", "node"].contains(&root);
    (is_root && !key.contains('"')).then_some((root, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let parts = text_parts(text).into_iter().map(|part| match part {
            TextPart::Literal(literal) => literal.to_owned(),
            TextPart::Reference(reference) => {
                let mark = if reference.is_nomads { "!" } else { "?" };
                format!("{mark}{}", reference.name)
            }
        });
        parts.collect()
    }

    /// With a search for the end from each opening, this takes many minutes.
    #[test]
    fn openings_without_an_end_of_their_own_are_searched_once() {
        let text = format!("{}a}}", "${".repeat(1 << 20));
        let parts = text_parts(&text);
        assert_eq!(parts.len(), 2);
        assert!(matches!(&parts[1], TextPart::Reference(reference) if reference.name == "a"));
    }

    #[test]
    fn a_text_has_literals_and_references() {
        for (text, expected) in [
            ("", &[][..]),
            ("plain $HOME {}", &["plain $HOME {}"]),
            ("a${NOMAD_ALLOC_ID}b", &["a", "!NOMAD_ALLOC_ID", "b"]),
            ("${ node.class }${HOME:-x}", &["!node.class", "?HOME:-x"]),
            ("${a ${meta.x} ${", &["${a ", "!meta.x", " ${"]),
            ("${attr[\"kernel.name\"]}", &["!attr.kernel.name"]),
            ("${env[\"HOME\"]}", &["!HOME"]),
            ("${env[HOME]}", &["!env[HOME]"]),
            ("${a[\"x\"]}", &["?a[\"x\"]"]),
            ("${Attr.kernel.name}", &["?Attr.kernel.name"]),
            ("ä${}ö", &["ä", "?", "ö"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
            let together = text_parts(text).into_iter().map(|part| match part {
                TextPart::Literal(literal) => literal,
                TextPart::Reference(reference) => reference.written,
            });
            assert_eq!(together.collect::<String>(), text);
        }
    }
}
