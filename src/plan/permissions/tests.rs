//! Required permissions and grants, row by row.

use super::*;
use nomad_csi_spec::acl_policy;

fn grants(rules: &[&str]) -> Grants {
    Grants::of(rules.iter().map(|text| acl_policy(text).unwrap()))
}

fn of(steps: &[(AclOperation, &str)]) -> RequiredPermissions {
    let mut needs = RequiredPermissions::default();
    for (step, namespace) in steps {
        needs.add(*step, &Namespace::new(*namespace));
    }
    needs
}

fn list(needs: &RequiredPermissions) -> Vec<String> {
    needs.iter().map(|(one, _)| one.to_string()).collect()
}

#[test]
fn each_operation_requires_what_the_server_checks() {
    for (step, expected) in [
        (AclOperation::List, &["csi-list-volume in namespace prod"][..]),
        (AclOperation::Observe, &["csi-read-volume in namespace prod", "plugin read"]),
        (AclOperation::Write, &["csi-write-volume in namespace prod", "plugin read"]),
        (AclOperation::Deregister, &["csi-write-volume in namespace prod"]),
        (
            AclOperation::Delete,
            &[
                "csi-write-volume in namespace prod",
                "read-job in namespace prod",
                "plugin read",
                "node read",
            ],
        ),
        (AclOperation::Snapshot, &["csi-write-volume in namespace prod", "plugin read"]),
        (AclOperation::Detach, &["csi-mount-volume in namespace prod", "plugin read"]),
    ] {
        assert_eq!(list(&of(&[(step, "prod")])), expected, "{step:?}");
    }
}

#[test]
fn missing_permissions_are_reported_with_the_smallest_policy() {
    let mut needs = of(&[
        (AclOperation::Observe, "prod"),
        (AclOperation::Write, "prod"),
        (AclOperation::Detach, "dev"),
    ]);
    needs.add_ledger(&LedgerLocation {
        namespace: Namespace::default(),
        set: SetName::parse("web").unwrap(),
    });
    let some =
        grants(&["namespace \"prod\" { policy = \"read\" }", "plugin { policy = \"read\" }"]);
    let missing = needs.missing(&some);
    assert_eq!(
        list(&missing),
        [
            "csi-mount-volume in namespace dev",
            "csi-write-volume in namespace prod",
            "destroy on variables nomad-csi/sets/web/* in namespace default",
            "list on variables nomad-csi/sets/web/* in namespace default",
            "read on variables nomad-csi/sets/web/* in namespace default",
            "write on variables nomad-csi/sets/web/* in namespace default",
        ]
    );
    let policy = needs.policy();
    assert_eq!(
        policy,
        "namespace \"default\" {\n  variables {\n    path \"nomad-csi/sets/web/*\" {\n      capabilities = [\"destroy\", \"list\", \"read\", \"write\"]\n    }\n  }\n}\nnamespace \"dev\" {\n  capabilities = [\"csi-mount-volume\"]\n}\nnamespace \"prod\" {\n  capabilities = [\"csi-read-volume\", \"csi-write-volume\"]\n}\nplugin {\n  policy = \"read\"\n}\n"
    );
    assert!(needs.missing(&grants(&[&policy])).is_empty());
    assert!(needs.missing(&Grants::Everything).is_empty());
    assert!(needs.missing(&Grants::Unknown).is_empty(), "nothing is guessed");
    assert_eq!(needs.missing(&grants(&[])), needs);
}

#[test]
fn policies_and_capabilities_grant_what_nomad_documents() {
    use AclVolumeCapability::{List, Mount, Read, ReadJobs, Write};
    for (rule, expected) in [
        ("policy = \"read\"", &[List, Read, ReadJobs][..]),
        ("policy = \"write\"", &[List, Read, Write, Mount, ReadJobs]),
        ("policy = \"scale\"", &[Read, ReadJobs]),
        ("policy = \"deny\"", &[]),
        ("capabilities = [\"csi-list-volume\"]", &[List]),
        ("capabilities = [\"list-jobs\"]", &[List]),
        ("capabilities = [\"read-job\"]", &[Read, ReadJobs]),
        ("capabilities = [\"csi-read-volume\"]", &[List, Read]),
        ("capabilities = [\"csi-mount-volume\"]", &[List, Read, Mount]),
        ("capabilities = [\"csi-write-volume\"]", &[Write]),
        ("policy = \"write\"\ncapabilities = [\"deny\"]", &[]),
        ("capabilities = [\"submit-job\"]", &[]),
    ] {
        let grants = grants(&[&format!("namespace \"a\" {{ {rule} }}")]);
        let own = Namespace::new("a");
        let has = AclVolumeCapability::ALL
            .into_iter()
            .filter(|one| grants.allows(&Permission::Volumes(own.clone(), *one)) == Some(true));
        assert_eq!(has.collect::<Vec<_>>(), expected, "{rule}");
    }
}

#[test]
fn only_the_closest_label_decides() {
    let rules = [
        "namespace \"*\" { policy = \"write\" }",
        "namespace \"prod-*\" { policy = \"read\" }",
        "namespace \"prod-db\" { policy = \"deny\" }",
        "namespace \"*-web\" { capabilities = [\"csi-mount-volume\"] }",
    ];
    let grants = grants(&rules);
    for (namespace, read, write) in [
        ("dev", true, true),
        ("prod-web-2", true, false),
        ("prod-db", false, false),
        ("test-web", true, false),
        ("*", true, true),
    ] {
        let may = |capability| {
            let on = Permission::Volumes(Namespace::new(namespace), capability);
            grants.allows(&on)
        };
        assert_eq!(may(AclVolumeCapability::Read), Some(read), "{namespace}");
        assert_eq!(may(AclVolumeCapability::Write), Some(write), "{namespace}");
    }
}

/// `read` also lists, `write` grants nothing else, and the policy of the namespace grants nothing.
#[test]
fn variables_have_their_own_rules() {
    let rule = |path: &str, words: &str| {
        format!(
            "namespace \"*\" {{ policy = \"write\"\n variables {{ path \"{path}\" {{ capabilities = [{words}] }} }} }}"
        )
    };
    for (rules, expected) in [
        (rule("*", "\"read\""), &["list", "read"][..]),
        (rule("nomad-csi/*", "\"write\""), &["write"]),
        (rule("nomad-csi/sets/web/*", "\"list\", \"destroy\""), &["destroy", "list"]),
        (rule("nomad-csi/*", "\"read\", \"deny\""), &[]),
        (rule("other/*", "\"read\""), &[]),
        ("namespace \"*\" { policy = \"write\" }".to_owned(), &[]),
    ] {
        let grants = grants(&[&rules]);
        let may = |capability| {
            let path = "nomad-csi/sets/web/*".to_owned();
            grants.allows(&Permission::Variables(Namespace::default(), path, capability))
        };
        let has = ["destroy", "list", "read", "write"];
        let has = has.into_iter().filter(|one| may(one) == Some(true));
        assert_eq!(has.collect::<Vec<_>>(), expected, "{rules}");
    }
}

/// A plugin policy of `write` grants neither permission.
#[test]
fn plugins_need_a_read_policy() {
    for (word, list, read) in [
        ("list", true, false),
        ("read", true, true),
        ("write", false, false),
        ("deny", false, false),
    ] {
        let grants = grants(&[&format!("plugin {{ policy = \"{word}\" }}")]);
        assert_eq!(grants.allows(&Permission::ListPlugins), Some(list), "{word}");
        assert_eq!(grants.allows(&Permission::ReadPlugins), Some(read), "{word}");
        assert_eq!(grants.allows(&Permission::ReadAgent), Some(false), "{word}");
    }
}

/// Only a token that lists every namespace can find unregistered data.
#[test]
fn every_namespace_is_listed_only_by_an_unrevoked_rule_for_all() {
    let everywhere = "namespace \"*\" { capabilities = [\"csi-list-volume\"] }";
    let closer = |rule: &str| format!("{everywhere} namespace \"prod-*\" {{ {rule} }}");
    for (rules, expected) in [
        (everywhere.to_owned(), true),
        (closer("policy = \"read\""), true),
        (closer("policy = \"deny\""), false),
        (closer("capabilities = [\"csi-write-volume\"]"), false),
        ("namespace \"*\" { capabilities = [\"submit-job\"] }".to_owned(), false),
        ("namespace \"default\" { policy = \"write\" }".to_owned(), false),
        (String::new(), false),
    ] {
        let policy = acl_policy(&rules).expect("the rules can be read");
        let grants = Grants::of([policy]);
        assert_eq!(grants.lists_every_namespace(), Some(expected), "{rules}");
    }
    assert_eq!(Grants::Everything.lists_every_namespace(), Some(true));
    assert_eq!(Grants::Unknown.lists_every_namespace(), None);
}

/// Nomad answers for all namespaces with what the token may see, without a word about the rest.
#[test]
fn allocations_of_every_namespace_are_read_only_with_the_right_in_each() {
    for (rules, expected) in [
        ("namespace \"*\" { policy = \"read\" }", true),
        ("namespace \"*\" { capabilities = [\"read-job\"] }", true),
        ("namespace \"*\" { capabilities = [\"list-jobs\"] }", false),
        (
            "namespace \"*\" { capabilities = [\"csi-list-volume\", \"csi-read-volume\"] }\nnamespace \"ops\" { policy = \"write\" }",
            false,
        ),
        ("namespace \"*\" { policy = \"read\" }\nnamespace \"ops\" { policy = \"deny\" }", false),
        ("namespace \"default\" { policy = \"write\" }", false),
        ("", false),
    ] {
        let policy = acl_policy(rules).expect("the rules can be read");
        let grants = Grants::of([policy]);
        assert_eq!(grants.reads_every_job(), Some(expected), "{rules}");
    }
    assert_eq!(Grants::Everything.reads_every_job(), Some(true));
    assert_eq!(Grants::Unknown.reads_every_job(), None);
}

#[test]
fn every_set_is_readable_only_if_no_rule_hides_one() {
    let rules = |text: &str| {
        let policy = nomad_csi_spec::acl_policy(text).expect("the policy is valid");
        Grants::of([policy]).reads_every_set(&Namespace::default())
    };
    let on = |paths: &[(&str, &str)]| {
        let blocks: String = paths
            .iter()
            .map(|(path, words)| format!("path \"{path}\" {{ capabilities = [{words}] }}\n"))
            .collect();
        rules(&format!(
            "namespace \"default\" {{\n policy = \"read\"\n variables {{\n{blocks}}}\n}}"
        ))
    };
    for (paths, expected) in [
        (&[("*", "\"read\", \"list\"")][..], true),
        (&[("nomad-csi/*", "\"read\", \"list\"")], true),
        (&[("nomad-csi/sets/*", "\"write\", \"read\"")], true),
        (&[("nomad-csi/sets/*", "\"list\"")], false),
        (&[("nomad-csi/sets/web/*", "\"read\", \"list\"")], false),
        (&[("nomad-csi/sets/*", "\"read\""), ("nomad-csi/sets/db/*", "\"deny\"")], false),
        (&[("nomad-csi/sets/*", "\"read\""), ("nomad-csi/sets/db/*", "\"list\"")], false),
        (&[("nomad-csi/sets/*", "\"read\""), ("nomad-csi/sets/db/*", "\"read\"")], true),
        (&[], false),
    ] {
        assert_eq!(on(paths), Some(expected), "{paths:?}");
    }
    assert_eq!(Grants::Everything.reads_every_set(&Namespace::default()), Some(true));
    assert_eq!(Grants::Unknown.reads_every_set(&Namespace::default()), None);
}
