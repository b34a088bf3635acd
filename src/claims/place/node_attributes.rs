//! The attributes of a node that constraints compare.

use nomad_csi_model::{Node, TextPart, text_parts};

/// Returns what an expression such as `${attr.kernel.name}` means on the node; a text without an expression is
/// itself. `None` if the node does not have the attribute, and for an expression with more behind it, which means nothing.
pub(super) fn resolve(node: &Node, text: &str) -> Option<String> {
    match text_parts(text).as_slice() {
        [TextPart::Reference(reference)] => node.reference(&reference.name),
        [TextPart::Reference(reference), ..] if reference.is_nomads => None,
        _ => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{MountConfig, NodeId};

    #[test]
    fn expressions_name_fields_attributes_and_drivers() {
        let mut node = Node::new(NodeId::new("n1"), "alpha", "dc1");
        node.drivers.insert("exec".into(), MountConfig::All);
        node.drivers.insert("raw_exec".into(), MountConfig::None);
        node.attributes.insert("kernel.name".into(), "linux".into());
        for (text, expected) in [
            ("plain", Some("plain")),
            ("${node.unique.id}", Some("n1")),
            ("${node.unique.name}", Some("alpha")),
            ("${attr.unique.hostname}", Some("alpha")),
            ("${node.datacenter}", Some("dc1")),
            ("${node.pool}", Some("default")),
            ("${node.class}", Some("")),
            ("${node.region}", Some("global")),
            ("${attr[\"kernel.name\"]}", Some("linux")),
            ("${attr.kernel.name}", Some("linux")),
            ("${attr.cpu.arch}", None),
            ("${attr.driver.exec}", Some("1")),
            ("${attr.driver.exec.mount_config}", Some("all")),
            ("${attr.driver.raw_exec.mount_config}", Some("none")),
            ("${attr.driver.docker}", None),
            ("${meta.rack}", None),
            ("${attr.kernel.name}-${attr.cpu.arch}", None),
            ("${HOME}-x", Some("${HOME}-x")),
        ] {
            assert_eq!(resolve(&node, text).as_deref(), expected, "{text}");
        }
    }
}
