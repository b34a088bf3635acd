//! Writes content as HCL: blocks where a field is one, and attributes elsewhere.

use super::content::{Content, LABELLED, Member, template};
use crate::encode::{escaped, key, quoted};
use crate::schema::LOCALS;
use crate::tree::ScalarKind;
use crate::words::UNKNOWN;

/// Writes a document.
pub(super) fn hcl(content: &Content) -> String {
    let mut out = String::new();
    let Content::Map(members) = content else {
        return out;
    };
    for member in members {
        if let Content::Map(blocks) = &member.value
            && LABELLED.contains(&member.key.as_str())
        {
            comments(&member.comments, 0, &mut out);
            blocks.iter().for_each(|block| labelled(&member.key, block, &mut out));
            continue;
        }
        if matches!(member.value, Content::Map(_)) {
            empty_line(&mut out);
        }
        field(member, &[], 0, &mut out);
    }
    out
}

/// Writes a block with a label.
fn labelled(keyword: &str, block: &Member, out: &mut String) {
    empty_line(out);
    comments(&block.comments, 0, out);
    let start = format!("{keyword} {}", quoted(&block.key));
    if let Content::Map(fields) = &block.value {
        body(&start, fields, &[keyword], 0, out);
    } else {
        out.extend([start.as_str(), " = ", &value(&block.value, 0), "\n"]);
    }
}

/// Separates a block from what is before.
fn empty_line(out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
}

fn comments(lines: &[String], level: usize, out: &mut String) {
    for line in lines {
        indent(level, out);
        out.extend(["#", if line.is_empty() { "" } else { " " }, line, "\n"]);
    }
}

fn indent(level: usize, out: &mut String) {
    (0..level).for_each(|_| out.push_str("  "));
}

/// Writes a block with its fields. `path` has the keys that lead to it, without labels.
fn body(start: &str, fields: &[Member], path: &[&str], level: usize, out: &mut String) {
    indent(level, out);
    if fields.is_empty() {
        out.extend([start, " {}\n"]);
        return;
    }
    out.extend([start, " {\n"]);
    fields.iter().for_each(|member| field(member, path, level + 1, out));
    indent(level, out);
    out.push_str("}\n");
}

fn field(member: &Member, path: &[&str], level: usize, out: &mut String) {
    comments(&member.comments, level, out);
    let name = key(&member.key);
    let mut inner = path.to_vec();
    inner.push(&member.key);
    let is_map = |item: &Content| matches!(item, Content::Map(_));
    match &member.value {
        Content::Map(fields) if is_block(&inner) => body(&name, fields, &inner, level, out),
        Content::List(items)
            if is_block(&inner) && !items.is_empty() && items.iter().all(is_map) =>
        {
            for item in items {
                if let Content::Map(fields) = item {
                    body(&name, fields, &inner, level, out);
                }
            }
        }
        Content::Scalar(_, text) if inner[..] == ["variable", "type"] => {
            indent(level, out);
            out.extend([name.as_str(), " = ", text, "\n"]);
        }
        other => {
            indent(level, out);
            out.extend([name.as_str(), " = ", &value(other, level), "\n"]);
        }
    }
}

/// Returns whether a map at a path is written as a block: not if it is a value of its author.
fn is_block(path: &[&str]) -> bool {
    match path {
        [LOCALS] => true,
        [LOCALS, ..] | ["variable", "default", ..] => false,
        [.., last] => !matches!(*last, "for_each" | "count" | "enabled"),
        [] => true,
    }
}

/// Returns a value as it stands behind `=`.
pub(super) fn value(content: &Content, level: usize) -> String {
    match content {
        Content::Null => "null".to_owned(),
        Content::Unknown => UNKNOWN.to_owned(),
        Content::Scalar(ScalarKind::Text, text) => quoted(text),
        Content::Scalar(ScalarKind::Number | ScalarKind::Boolean, text) => text.clone(),
        Content::Expression(source) => source.clone(),
        Content::Template(parts) => format!("\"{}\"", template(parts, escaped)),
        Content::Reference(source, arguments) => {
            let arguments: Vec<String> =
                arguments.iter().map(|argument| quoted(argument)).collect();
            format!("{}({})", source.as_str(), arguments.join(", "))
        }
        Content::List(items) => {
            let items: Vec<String> = items.iter().map(|item| value(item, level)).collect();
            format!("[{}]", items.join(", "))
        }
        Content::Map(members) if members.is_empty() => "{}".to_owned(),
        Content::Map(members) => {
            let mut out = "{\n".to_owned();
            for member in members {
                comments(&member.comments, level + 1, &mut out);
                indent(level + 1, &mut out);
                let inner = value(&member.value, level + 1);
                out.extend([key(&member.key).as_str(), " = ", &inner, "\n"]);
            }
            indent(level, &mut out);
            out.push('}');
            out
        }
    }
}
