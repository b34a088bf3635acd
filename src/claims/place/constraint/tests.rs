//! Every operator, with and without the attribute.

use super::*;
use nomad_csi_model::NodeId;

fn node() -> Node {
    let mut node = Node::new(NodeId::new("n1"), "alpha", "dc1");
    for (name, value) in [
        ("kernel.name", "linux"),
        ("kernel.version", "6.12.3-cloud"),
        ("cpu.numcores", "8"),
        ("tags", "fast, ssd"),
    ] {
        node.attributes.insert(name.to_owned(), value.to_owned());
    }
    node
}

fn constraint(attribute: &str, operator: &str, value: &str) -> Constraint {
    Constraint {
        attribute: attribute.to_owned(),
        operator: ConstraintOperator::parse_with_synonyms(operator).unwrap(),
        value: value.to_owned(),
    }
}

#[test]
fn each_operator_compares_what_its_name_says() {
    let name = "${attr.kernel.name}";
    let version = "${attr.kernel.version}";
    let cores = "${attr.cpu.numcores}";
    let tags = "${attr.tags}";
    let missing = "${attr.missing}";
    for (attribute, operator, value, expected) in [
        (name, "=", "linux", true),
        (name, "=", "windows", false),
        (name, "!=", "windows", true),
        (missing, "!=", "windows", true),
        (missing, "=", "", false),
        (name, "is_set", "", true),
        (missing, "is_set", "", false),
        (missing, "is_not_set", "", true),
        (name, "is_not_set", "", false),
        (cores, ">", "10", false),
        (cores, "<", "10", true),
        (cores, ">=", "8", true),
        (cores, "<=", "7.5", false),
        (name, ">", "abc", true),
        (name, "regexp", "^lin", true),
        (name, "regexp", "^win", false),
        (name, "regexp", "(", false),
        (tags, "set_contains", "ssd,fast", true),
        (tags, "set_contains_all", "ssd,slow", false),
        (tags, "set_contains_any", "ssd,slow", true),
        (tags, "set_contains_any", "slow", false),
        (version, "version", ">= 6.1, < 7", true),
        (version, "version", ">= 6.12.3", false),
        (version, "version", "~> 6.0", true),
        (version, "version", "~> 6.11.0", false),
        (version, "semver", "> 6.12.2", true),
        (version, "version", "nonsense", false),
        (missing, "version", "> 1", false),
        (name, "distinct_property", "1", true),
    ] {
        let one = constraint(attribute, operator, value);
        assert_eq!(is_fulfilled(&one, &node()), expected, "{}", text(&one));
    }
}

#[test]
fn a_value_may_be_an_expression_too() {
    let one = constraint("${node.unique.name}", "=", "${attr.unique.hostname}");
    assert!(is_fulfilled(&one, &node()));
}

#[test]
fn versions_compare_by_their_numbers() {
    for (version, constraint, expected) in [
        ("1.10.0", "> 1.9", true),
        ("1.2", "= 1.2.0", true),
        ("v2.0.5+ent", "= 2.0.5", true),
        ("2.0.0-beta.1", "< 2.0.0", true),
        ("2.0.0-beta.1", "> 2.0.0-alpha", true),
        ("1.9.4", "~> 1.2", true),
        ("2.0.0", "~> 1.2", false),
        ("1.1", "~> 1.2", false),
        ("1.2.9", "~> 1.2.3", true),
        ("1.3.0", "~> 1.2.3", false),
        ("1.2", "!= 1.2", false),
    ] {
        assert_eq!(is_version_allowed(version, constraint), expected, "{version} {constraint}");
    }
}
