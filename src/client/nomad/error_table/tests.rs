//! Every row matches a text that Nomad really sends, in every form in which texts arrive.

use super::*;

/// Error texts of Nomad, at least one per row.
const TEXTS: &[(&str, Code)] = {
    use Code as C;
    &[
        ("No cluster leader", C::ApiNoLeader),
        ("rpc error: rpc error: No cluster leader", C::ApiNoLeader),
        ("Not ready to serve consistent reads", C::ApiNoLeader),
        ("No path to region", C::ApiUnknownRegion),
        (
            "Your IP is issuing too many concurrent connections, please rate limit your calls\n",
            C::ApiRateLimited,
        ),
        ("Client sent an HTTP request to an HTTPS server.\n", C::ApiTls),
        ("volume db0 is in nonexistent namespace prod", C::VolumeUnknownNamespace),
        ("Namespace not found", C::NamespaceUnknown),
        ("namespace not found", C::NamespaceUnknown),
        ("can not delete default namespace", C::ApiBadRequest),
        ("namespace \"team-b\" has non-terminal jobs in regions: [global]", C::NamespaceInUse),
        ("ACL support disabled", C::ApiAclDisabled),
        ("ACL token not found", C::ApiUnknownToken),
        ("acl token lookup failed: missing secret id", C::ApiForbidden),
        ("failed to resolve ACL token: ACL token expired", C::ApiUnknownToken),
        ("ACL policy not found", C::AclPolicyNotFound),
        ("variable not found", C::VariableNotFound),
        ("job not found", C::JobNotFound),
        (
            "Enforcing job modify index 5: job exists with conflicting job modify index: 600",
            C::JobConflict,
        ),
        (
            "1 error occurred:\n\t* Task group g validation failed: 1 error occurred:\n\t* Task t validation failed",
            C::JobInvalid,
        ),
        ("job \"bat\" is in nonexistent namespace \"nosuch\"", C::JobInvalid),
        ("parameterized job not found", C::JobNotFound),
        ("Dispatch did not provide required meta keys: [set]", C::JobRefused),
        ("Dispatch request included unpermitted metadata keys: [bad]", C::JobRefused),
        ("Payload is not provided but required by parameterized job", C::JobRefused),
        ("Payload provided but forbidden by parameterized job", C::JobRefused),
        ("Payload exceeds maximum size; 16385 > 16384", C::JobRefused),
        ("dispatch job priority must be between [1, 100]", C::JobRefused),
        ("Specified job \"nightly\" is not a parameterized job", C::JobRefused),
        ("Specified job \"drop-set\" is stopped", C::JobRefused),
        ("can't force launch non-periodic job", C::JobRefused),
        (
            "force launch for job \"a\" failed: can't force run non-tracked job \"a\" (default)",
            C::JobRefused,
        ),
        ("can't evaluate periodic job", C::JobRefused),
        ("can't evaluate parameterized job", C::JobRefused),
        ("cannot update non-periodic job to being periodic", C::JobInvalid),
        ("cannot update parameterized job to being non-parameterized", C::JobInvalid),
        ("field 'Dispatched' is read-only", C::JobInvalid),
        ("eval not found", C::AllocNotFound),
        ("alloc not found", C::AllocNotFound),
        ("allocation not found", C::AllocNotFound),
        (
            "state for allocation 3761b601-1111-2222-3333-444455556666 not found on client",
            C::AllocNotFound,
        ),
        ("Unknown allocation \"3761b601-1111-2222-3333-444455556666\"", C::AllocNotFound),
        ("unknown task name \"nosuch\"", C::AllocTask),
        ("node not found", C::NodeUnknown),
        ("RPC Error:: 400,variables are limited to 16KiB in total size", C::VariableTooLarge),
        ("variable doesn't exist", C::VariableLockLost),
        ("variable doesn't hold a lock", C::VariableLockLost),
        (
            "all servers must be running version 1.4.0 or later to apply variables",
            C::ApiUnsupported,
        ),
        ("no such volume", C::VolumeNotFound),
        ("no such volume \"db0\"", C::VolumeNotFound),
        (
            "1 error occurred:\n\t* plugin \"ebs0\" does not support snapshot\n\n",
            C::PluginUnsupported,
        ),
        ("1 error occurred:\n\t* plugin does not support snapshot\n\n", C::PluginUnsupported),
        ("plugin does not support listing snapshots", C::PluginUnsupported),
        (
            "could not detach from controller: missing external node ID: no such node",
            C::PluginUnreachable,
        ),
        (
            "could not delete \"s1\": snapshot \"s1\" could not be deleted because it is in use: by a clone",
            C::SnapshotInUse,
        ),
        (
            "controller list volumes: invalid starting token \"t\": rpc error: code = Aborted desc = gone",
            C::ApiListChanged,
        ),
        ("could not create snapshot: controller create snapshot: too many", C::PluginRefused),
        ("could not delete \"s1\": controller delete snapshot: no", C::PluginRefused),
        ("controller list snapshots: no", C::PluginRefused),
        ("controller list volumes: no", C::PluginRefused),
        ("could not detach from node: it is busy", C::PluginRefused),
        ("volume not found", C::VolumeNotFound),
        ("volume not found: db0", C::VolumeNotFound),
        ("rpc error: volume not found: db0", C::VolumeNotFound),
        ("volume in use: db0", C::VolumeInUse),
        ("Unknown allocation", C::VolumeNotAttached),
        ("validation: missing volume id, missing plugin id", C::VolumeInvalid),
        ("missing volume definition", C::VolumeInvalid),
        (
            "unable to update volume: max requested capacity (1.0 GB) less than or equal to min (2.0 GB)",
            C::VolumeCapacity,
        ),
        (
            "unable to update volume: 1 error occurred:\n\t* volume name cannot be updated\n\n",
            C::VolumeImmutableField,
        ),
        ("volume external ID cannot be updated", C::VolumeImmutableField),
        ("volume plugin ID cannot be updated", C::VolumeImmutableField),
        ("volume clone ID cannot be updated", C::VolumeImmutableField),
        ("volume snapshot ID cannot be updated", C::VolumeImmutableField),
        ("volume parameters cannot be updated", C::VolumeImmutableField),
        (
            "volume topology request update was not compatible with existing topology",
            C::VolumeImmutableField,
        ),
        ("volume identity cannot be updated: db0", C::VolumeImmutableField),
        ("volume exists: db0", C::VolumeImmutableField),
        (
            "volume requested capabilities update was not compatible with existing capability in use",
            C::VolumeInUse,
        ),
        ("can not update mount options while volume is in use", C::VolumeInUse),
        ("volume cannot be updated while in use", C::VolumeInUse),
        (
            "volume requested capacity update was not compatible with existing capacity",
            C::VolumeCapacity,
        ),
        ("no CSI plugin named: ebs0 could be found", C::PluginUnknown),
        ("plugin not found: ebs0", C::PluginUnknown),
        ("no such plugin", C::PluginUnknown),
        ("plugin missing: ebs0", C::PluginUnknown),
        ("plugin not found", C::PluginNotFound),
        ("no healthy controllers for CSI plugin: ebs0", C::PluginUnhealthy),
        ("plugin has no controller", C::PluginNoController),
        (r#"plugin "ebs0" for volume "db0" not found"#, C::PluginNoController),
        ("plugin does not support creating volumes", C::PluginUnsupported),
        (
            "unable to update volume: expand is not implemented by this controller plugin",
            C::PluginUnsupported,
        ),
        ("unimplemented for this plugin", C::PluginUnsupported),
        (
            r#"controller create volume: failed to find instances of controller plugin "ebs0""#,
            C::PluginUnreachable,
        ),
        (r#"failed to find clients running controller plugin "ebs0": x"#, C::PluginUnreachable),
        ("controller validate volume: No path to node", C::PluginUnreachable),
        ("controller validate volume: Unknown node", C::PluginUnreachable),
        ("CSI client error (retryable): EOF", C::PluginUnreachable),
        (
            "1 error occurred:\n\t* controller create volume: CSI.ControllerCreateVolume: volume \
             \"db\" content source &{\"s\" \"\"} does not exist: rpc error: code = NotFound desc = x",
            C::PluginSourceNotFound,
        ),
        (
            r#"volume "db" already exists but is incompatible with these parameters: x"#,
            C::PluginConflict,
        ),
        (r#"unable to provision "db" in accessible_topology: x"#, C::PluginExhausted),
        (
            "controller create volume: CSI.ControllerCreateVolume: unsupported capacity_range for \
             volume \"db\": rpc error: code = OutOfRange desc = x",
            C::PluginCapacity,
        ),
        ("volume capability validation failed: x", C::PluginCapability),
        (r#"requested capabilities not compatible with volume "db": x"#, C::PluginCapability),
        (r#"volume "vol-1" cannot be expanded online: x"#, C::VolumeInUse),
        (
            "controller delete volume: CSI.ControllerDeleteVolume: volume \"vol-1\" is in use: \
             rpc error: code = FailedPrecondition desc = x",
            C::VolumeInUse,
        ),
        (
            "controller validate volume: CSI.ControllerValidateVolume: volume \"vol-1\" could not \
             be found: rpc error: code = NotFound desc = x",
            C::PluginVolumeNotFound,
        ),
        (
            "1 error occurred:\n\t* controller create volume: CSI.ControllerCreateVolume: volume \
             \"vol0\" snapshot source &{\"\" \"\"} is not compatible with these parameters: rpc \
             error: code = InvalidArgument desc = x\n\n",
            C::PluginRefused,
        ),
        (
            "1 error occurred:\n\t* controller create volume: CSI.ControllerCreateVolume: unknown \
             volume access mode: single-node-reader\n\n",
            C::VolumeInvalid,
        ),
        ("unknown volume attachment mode: x", C::VolumeInvalid),
        (
            "1 error occurred:\n\t* controller create volume: CSI.ControllerCreateVolume: missing Name\n\n",
            C::VolumeInvalid,
        ),
        (
            "controller create volume: CSI.ControllerCreateVolume: LimitBytes cannot be less than \
             RequiredBytes",
            C::VolumeCapacity,
        ),
        (
            "controller create volume: CSI.ControllerCreateVolume: controller plugin returned an \
             internal error, check the plugin allocation logs for more information: x",
            C::PluginInternal,
        ),
        (
            "controller create volume: CSI.ControllerCreateVolume: rpc error: code = \
             DeadlineExceeded desc = x",
            C::ApiOutcomeUnknown,
        ),
        ("controller create volume: context deadline exceeded", C::ApiOutcomeUnknown),
        (
            "controller expand volume: rpc error: code = ResourceExhausted desc = x",
            C::PluginExhausted,
        ),
        (
            "controller create volume: rpc error: code = Unimplemented desc = x",
            C::PluginUnsupported,
        ),
        ("controller create volume: rpc error: code = Unavailable desc = x", C::PluginUnreachable),
        ("controller create volume: x", C::PluginRefused),
        ("controller validate volume: x", C::PluginRefused),
        ("controller expand volume: x", C::PluginRefused),
        ("unable to expand volume: x", C::PluginRefused),
        ("controller delete volume: x", C::PluginRefused),
    ]
};

#[test]
fn every_text_has_a_code_and_every_row_a_text() {
    let mut used = vec![false; TABLE.len()];
    for (text, code) in TEXTS {
        let lines = lines(text);
        let found = meaning(&lines).map(|meaning| meaning.code);
        assert_eq!(found, Some(*code), "{text}");
        let row = TABLE
            .iter()
            .position(|row| lines.iter().any(|line| row.pattern.matches(without_hops(line))));
        used[row.expect("a row matches the text")] = true;
    }
    for (row, used) in TABLE.iter().zip(used) {
        assert!(used, "no text matches {:?}", row.pattern);
    }
}

/// Only the server can report a volume as missing: "already deleted" depends on it.
#[test]
fn plugin_errors_are_not_server_errors() {
    for text in [
        "controller delete volume: CSI.ControllerDeleteVolume: rpc error: code = Internal desc = volume not found: db0",
        "1 error occurred:\n\t* controller delete volume: volume not found\n\n",
        "controller create volume: rpc error: code = Unknown desc = No cluster leader",
        "controller create volume: volume in use: x",
        "controller create volume: no CSI plugin named: x",
    ] {
        let found = meaning(&lines(text)).map(|meaning| meaning.code);
        assert_eq!(found, Some(Code::PluginRefused), "{text}");
    }
}

#[test]
fn the_status_gives_an_unknown_text_its_meaning() {
    assert_eq!(meaning(&lines("something new")), None);
    assert_eq!(meaning(&[]), None);
    for (status, code) in [
        (400, Code::ApiBadRequest),
        (401, Code::ApiUnknownToken),
        (404, Code::ApiNotNomad),
        (405, Code::ApiNotNomad),
        (429, Code::ApiRateLimited),
        (500, Code::ApiServerError),
        (418, Code::ApiServerError),
    ] {
        assert_eq!(meaning_of_status(status).code, code, "{status}");
    }
    for (text, code) in [
        ("Permission denied", Code::ApiForbidden),
        ("rpc error: Permission denied", Code::ApiForbidden),
        ("Forbidden", Code::ApiForbidden),
        ("ACL token not found", Code::ApiUnknownToken),
        ("rpc error: ACL token not found", Code::ApiUnknownToken),
    ] {
        assert_eq!(meaning_of_forbidden(text, true).code, code, "{text}");
    }
}

#[test]
fn multiple_errors_become_lines() {
    for (text, expected) in [
        ("plain", vec!["plain"]),
        ("", vec![]),
        ("1 error occurred:\n\t* one\n\n", vec!["one"]),
        ("2 errors occurred:\n\t* one\n\t* two\n\n", vec!["one", "two"]),
        (
            "1 error occurred:\n\t* unable to update volume: 2 errors occurred:\n\t* volume name \
             cannot be updated\n\t* volume parameters cannot be updated\n\n\n\n",
            vec![
                "unable to update volume:",
                "volume name cannot be updated",
                "volume parameters cannot be updated",
            ],
        ),
        ("same\nsame\n", vec!["same"]),
    ] {
        assert_eq!(lines(text), expected, "{text:?}");
    }
}

#[test]
fn hop_prefixes_are_removed_and_grpc_errors_stay() {
    for (line, expected) in [
        ("rpc error: rpc error: x", "x"),
        ("rpc error: code = Internal desc = x", "rpc error: code = Internal desc = x"),
        ("rpc error: rpc error: code = Aborted", "rpc error: code = Aborted"),
    ] {
        assert_eq!(without_hops(line), expected);
    }
}
