//! Finds the node that a text on the command line names: its ID, the start of its ID, or its name.
//!
//! A full UUID needs no request, so that a token without the right to list nodes can use it.

use super::abbreviation::{AbbreviatedChange, require_meant};
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::reporter::ApprovalPrompt;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{ClientNode, NodeId, one_line};

/// The least number of characters of an ID that name a node, as in Nomad.
pub(super) const SHORTEST_PREFIX: usize = 4;
/// How many nodes an error lists.
const MAX_LISTED: usize = 10;

/// Returns the ID of the node that the text names.
///
/// # Errors
/// If no node or several match, the nodes cannot be listed, or the user interrupts.
pub async fn find_node(context: &WorkflowContext<'_>, text: &str) -> Result<NodeId, WorkflowError> {
    Ok(find(context, text).await?.id)
}

/// Returns the ID of the node that the text names, for a change of it: `action` is `drain node`. The
/// start of an ID has to be confirmed; a name does not.
///
/// # Errors
/// Those of [`find_node`], and if the start of an ID is not confirmed.
pub async fn find_node_to_change(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    text: &str,
    action: &str,
) -> Result<NodeId, WorkflowError> {
    let NamedNode { id, is_abbreviated } = find(context, text).await?;
    if is_abbreviated {
        let change = AbbreviatedChange { action, id: id.as_str(), typed: text };
        require_meant(prompt, change).await?;
    }
    Ok(id)
}

/// The node that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedNode {
    id: NodeId,
    /// True if the text is only the start of its ID.
    is_abbreviated: bool,
}

async fn find(context: &WorkflowContext<'_>, text: &str) -> Result<NamedNode, WorkflowError> {
    if uuid::Uuid::try_parse(text).is_ok() {
        return Ok(NamedNode { id: NodeId::new(text), is_abbreviated: false });
    }
    let listing = context.api.list_nodes();
    let nodes = context.unless_interrupted(listing).await??;
    matching(&nodes, text).map_err(|problem| (*problem).into())
}

/// Returns the node with this ID, else the one with this name, else the one whose ID starts so.
fn matching(nodes: &[ClientNode], text: &str) -> Result<NamedNode, Box<Diagnostic>> {
    let is_long = text.chars().count() >= SHORTEST_PREFIX;
    let exact = |node: &&ClientNode| node.id.as_str() == text;
    let named = |node: &&ClientNode| node.name == text;
    let starts = |node: &&ClientNode| is_long && node.id.as_str().starts_with(text);
    let found = [
        nodes.iter().filter(exact).collect::<Vec<_>>(),
        nodes.iter().filter(named).collect(),
        nodes.iter().filter(starts).collect(),
    ];
    match found.into_iter().find(|found| !found.is_empty()) {
        None => Err(Box::new(no_node(nodes, text))),
        Some(found) => match found.as_slice() {
            [one] => Ok(NamedNode {
                id: one.id.clone(),
                is_abbreviated: one.id.as_str() != text && one.name != text,
            }),
            several => Err(Box::new(several_nodes(several, text))),
        },
    }
}

fn no_node(nodes: &[ClientNode], text: &str) -> Diagnostic {
    let message = format!("`{}` names no node", one_line(text));
    let problem = Diagnostic::error(Code::NodeUnknown, message);
    if nodes.is_empty() {
        return problem.note("the server has no nodes");
    }
    let all: Vec<&ClientNode> = nodes.iter().collect();
    problem.note(listed(&all)).help(format!(
        "use the name of a node, its ID, or at least {SHORTEST_PREFIX} characters of its ID"
    ))
}

fn several_nodes(nodes: &[&ClientNode], text: &str) -> Diagnostic {
    let message = format!("`{}` names {} nodes", one_line(text), nodes.len());
    Diagnostic::error(Code::CliAmbiguousId, message)
        .note(listed(nodes))
        .help("type more of the node's ID")
}

fn listed(nodes: &[&ClientNode]) -> String {
    let names: Vec<String> = nodes
        .iter()
        .take(MAX_LISTED)
        .map(|node| format!("{} ({})", one_line(&node.name), one_line(node.id.as_str())))
        .collect();
    let more = match nodes.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the nodes are: {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, name: &str) -> ClientNode {
        ClientNode {
            id: NodeId::new(id),
            name: name.to_owned(),
            status: "ready".to_owned(),
            is_fenced: false,
            has_returned: false,
            description: String::new(),
            modify_index: 0,
        }
    }

    #[test]
    fn an_id_wins_over_a_name_and_a_name_over_the_start_of_an_id() {
        let nodes = [
            node("abcd1", "web"),
            node("abcd2", "abcd1"),
            node("ef012", "abcd"),
            node("abcf3", "twin"),
            node("abcf4", "twin"),
        ];
        for (text, expected) in [
            ("abcd1", Ok(("abcd1", false))),
            ("web", Ok(("abcd1", false))),
            ("abcd", Ok(("ef012", false))),
            ("ef01", Ok(("ef012", true))),
            ("ef0", Err(Code::NodeUnknown)),
            ("", Err(Code::NodeUnknown)),
            ("abcf", Err(Code::CliAmbiguousId)),
            ("twin", Err(Code::CliAmbiguousId)),
        ] {
            let found = matching(&nodes, text).map_err(|problem| problem.code);
            let expected = expected
                .map(|(id, is_abbreviated)| NamedNode { id: NodeId::new(id), is_abbreviated });
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn an_error_lists_at_most_ten_nodes() {
        let nodes: Vec<_> = (0..12).map(|n| node(&format!("id-{n}"), "n")).collect();
        let problem = matching(&nodes, "x").unwrap_err();
        let note = problem.notes.first().unwrap();
        assert!(note.ends_with("n (id-9) and 2 more"), "{note}");
    }
}
