//! Findings about nodes that were declared lost: no volume can be used there until they returned and were swept.

use super::facts::VolumeFacts;
use super::finding::{Confidence, Evidence, FactSource, Finding, Rule};
use super::remedies::run;
use nomad_csi_model::{ClientNode, SeenNodes, one_line, shell_quoted};

/// Returns a finding for each such node.
pub(super) fn fenced_nodes(facts: &VolumeFacts<'_>) -> Vec<Finding> {
    match facts.nodes {
        SeenNodes::Read(nodes) => {
            let fenced = nodes.iter().filter(|node| node.is_fenced);
            fenced.map(finding).collect()
        }
        SeenNodes::Unread(_) => vec![],
    }
}

fn finding(node: &ClientNode) -> Finding {
    let (name, id) = (one_line(&node.name), shell_quoted(node.id.as_str()));
    let description = one_line(&node.description);
    let (verdict, remedy) = match node.has_returned {
        true => (
            format!("no job can use the volume on node `{name}` before the node is swept"),
            run("see what the sweep waits for", format!("nomad-csi node status {id}")),
        ),
        false => (
            format!("no job can use the volume on node `{name}`, which is fenced"),
            run(
                "when the node is back, let it be used again",
                format!("nomad-csi node unfence {id}"),
            ),
        ),
    };
    Finding {
        rule: Rule::NodeFenced,
        verdict,
        confidence: Confidence::Known,
        evidence: vec![Evidence::new(FactSource::Nodes, format!("node `{name}`: {description}"))],
        remedies: vec![remedy],
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Facts, findings};
    use super::*;

    #[test]
    fn a_fenced_node_is_a_finding_until_it_is_swept() {
        for has_returned in [false, true] {
            let description = "waits for plugin `p`";
            let found = findings(&Facts::healthy().with(|facts| {
                if let Some(nodes) = &mut facts.nodes {
                    nodes[0].is_fenced = true;
                    nodes[0].has_returned = has_returned;
                    nodes[0].description = description.to_owned();
                }
            }));
            let found: Vec<_> =
                found.into_iter().filter(|one| one.rule == Rule::NodeFenced).collect();
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].evidence[0].fact.contains(description), "{found:?}");
            let command = found[0].remedies[0].command.clone().unwrap();
            let expected = match has_returned {
                true => "nomad-csi node status n1",
                false => "nomad-csi node unfence n1",
            };
            assert_eq!(command, expected);
        }
    }
}
