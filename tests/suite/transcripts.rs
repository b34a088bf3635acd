//! Sessions at the command line: one test per file of `tests/transcripts`.

use std::path::{Path, PathBuf};

use nomad_csi::diagnostic::Code;

use crate::support::transcript;

macro_rules! transcripts {
    ($($name:ident = $file:literal;)*) => {
        const LISTED: &[&str] = &[$($file,)*];

        $(#[test]
        fn $name() {
            transcript::check(&folder().join($file));
        })*
    };
}

transcripts! {
    a_plan_is_carried_out_when_somebody_agrees = "apply/apply.md";
    an_interrupt_lets_running_calls_finish = "apply/interrupt.md";
    who_agrees_to_what = "apply/approvals.md";
    a_saved_plan_is_carried_out_once = "apply/saved.md";
    nothing_is_changed_before_everything_is_ready = "apply/before.md";
    a_set_owns_what_was_applied_with_it = "apply/set.md";
    two_sets_that_own_a_volume_are_told = "set/two.md";
    a_set_lets_go_of_its_last_volume = "apply/empty.md";
    what_a_cluster_has_is_written_down = "import/nomad.md";
    what_the_agent_has_is_written_down = "import/agent.md";
    volumes_of_terraform_are_written_down = "import/terraform.md";
    a_loop_looks_until_somebody_ends_it = "reconcile/reconcile.md";
    what_somebody_changed_is_told = "drift/recorded.md";
    drift_on_the_agent = "drift/agent.md";
    secrets_are_looked_up_right_before_they_are_sent = "apply/secrets.md";
    references_and_sets_are_checked = "validate/references.md";
    a_second_interrupt_waits_for_nothing = "apply/leave.md";
    what_a_token_may_do_is_told = "auth/check.md";
    clusters_have_names = "context/contexts.md";
    config_files_that_cannot_be_used_are_told = "context/wrong.md";
    one_failure_stops_none_of_the_others = "apply/refused.md";
    what_somebody_else_changed_is_left_alone = "apply/stale.md";
    servers_that_cannot_be_used = "errors/server.md";
    settings_that_cannot_be_used = "errors/settings.md";
    a_plan_says_what_would_be_refused = "plan/blocked.md";
    a_plan_says_what_would_be_created = "plan/create.md";
    a_plan_says_what_would_change = "plan/update.md";
    a_plan_is_written_in_the_forms_of_pipelines = "plan/formats.md";
    a_plan_knows_what_the_server_hides = "plan/hidden.md";
    a_plan_says_what_is_at_risk = "plan/risk.md";
    a_plan_is_saved = "plan/saved.md";
    a_plan_knows_which_nomad_it_is_for = "plan/versions.md";
    plugins_are_shown = "plugin/status.md";
    a_socket_without_a_plugin_is_told = "plugin/socket.md";
    shells_and_the_manual_are_served = "talk/completion.md";
    sets_in_a_file_are_shown_and_let_go = "set/file.md";
    sets_in_variables_are_shown_and_let_go = "set/nomad.md";
    snapshots_are_taken_listed_and_deleted = "snapshot/snapshot.md";
    snapshots_of_the_embedded_agent = "snapshot/embedded.md";
    a_volume_is_detached = "volume/detach.md";
    a_volume_is_waited_for = "volume/wait.md";
    a_volume_is_expanded = "volume/expand.md";
    orphans_are_shown_registered_and_deleted = "orphans/orphans.md";
    orphans_of_the_embedded_agent = "orphans/embedded.md";
    codes_are_explained = "talk/explain.md";
    wrong_usage_is_an_error = "talk/usage.md";
    everything_wrong_is_told_at_once = "validate/everything-at-once.md";
    files_that_cannot_be_read_are_told = "validate/files.md";
    nomads_own_reading_is_told = "validate/nomad-hcl.md";
    what_cannot_be_sent_is_refused = "errors/unsendable.md";
    keys_and_values_are_held_against_the_schema = "validate/keys.md";
    rules_of_a_volume_are_held = "validate/rules.md";
    what_servers_refuse_has_a_code = "errors/refusals.md";
    a_misspelt_key_is_underlined = "validate/misspelt-key.md";
    two_namespaces_are_one_too_many = "validate/namespace.md";
    a_volume_is_created_by_name = "volume/create.md";
    a_volume_is_deleted_with_care = "volume/delete.md";
    a_volume_is_deregistered = "volume/deregister.md";
    what_a_set_keeps_is_not_removed_by_hand = "volume/owned.md";
    an_example_is_written_and_never_over_another_file = "volume/init.md";
    an_agent_that_cannot_start_says_why = "embedded/agent.md";
    one_volume_end_to_end = "embedded/lifecycle.md";
    volumes_are_listed = "volume/status-list.md";
    a_volume_is_shown = "volume/status-one.md";
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder)
        .expect("the folder is readable")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Played on a server that is really there.
const REAL: &str = "real/session.md";

/// `NOMAD_ADDR=http://127.0.0.1:4646 cargo test --test suite real_session -- --ignored`, with Nomad 1.7
/// or later, plain and without ACLs, and a plugin `hostpath` that creates volumes. It leaves the
/// variables of an empty set `session`.
#[test]
#[ignore = "needs a Nomad server with a CSI plugin: set NOMAD_ADDR"]
fn real_session_on_a_server() {
    let address = std::env::var("NOMAD_ADDR").expect("NOMAD_ADDR names the server");
    transcript::check_at(&folder().join(REAL), &address);
}

#[test]
fn no_transcript_is_forgotten() {
    let mut found = vec![];
    files(&folder(), &mut found);
    let mut found: Vec<String> = found
        .iter()
        .map(|path| {
            path.strip_prefix(folder())
                .expect("it lies in it")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    let mut listed = LISTED.to_vec();
    listed.push(REAL);
    listed.sort_unstable();
    assert_eq!(
        found, listed,
        "left: files; right: what is listed in this file"
    );
}

/// Codes that no transcript shows, and a test that sees them: its file below the project, its name.
const SHOWN_ELSEWHERE: &[(Code, &str, &str)] = &[
    (
        Code::CliOutputFailed,
        "tests/suite/bad_input.rs",
        "a_reader_who_has_gone_away_is_no_error_and_a_full_disk_is_one",
    ),
    (
        Code::FilesUnreadable,
        "tests/suite/bad_input.rs",
        "files_that_cannot_be_specifications_are_refused_by_name",
    ),
    (
        Code::FilesTooLarge,
        "tests/suite/bad_input.rs",
        "files_that_cannot_be_specifications_are_refused_by_name",
    ),
    (
        Code::FilesNotUtf8,
        "tests/suite/bad_input.rs",
        "files_that_cannot_be_specifications_are_refused_by_name",
    ),
    (
        Code::FilesBadPattern,
        "tests/suite/bad_input.rs",
        "files_that_cannot_be_specifications_are_refused_by_name",
    ),
    (
        Code::AgentPluginNotHealthy,
        "tests/suite/bad_input.rs",
        "an_embedded_plugin_that_does_not_start_is_told",
    ),
    (
        Code::ApiUnreachable,
        "tests/suite/client_failures.rs",
        "an_address_that_cannot_be_reached_is_explained",
    ),
    (
        Code::ApiUnknownHost,
        "tests/suite/client_failures.rs",
        "an_unknown_host_is_explained",
    ),
    (
        Code::ApiTimeout,
        "tests/suite/client_failures.rs",
        "silence_ends_after_a_minute_for_reads_and_after_minutes_for_writes",
    ),
    (
        Code::ApiTls,
        "tests/suite/client_tls.rs",
        "a_write_without_the_client_certificate_did_not_happen",
    ),
    (
        Code::ApiTooLarge,
        "tests/suite/client_answers.rs",
        "an_endless_answer_is_refused",
    ),
    (
        Code::ApiRateLimited,
        "tests/suite/client_failures.rs",
        "patience_with_a_busy_server_ends",
    ),
    (
        Code::ApiNoLeader,
        "tests/suite/client_failures.rs",
        "patience_with_a_busy_server_ends",
    ),
    (
        Code::ApiAclDisabled,
        "src/nomad/error/tests.rs",
        "every_text_has_its_code_and_every_row_its_text",
    ),
    (
        Code::ApiUnsupported,
        "src/nomad/error/tests.rs",
        "every_text_has_its_code_and_every_row_its_text",
    ),
    (
        Code::ApiListChanged,
        "src/nomad/error/tests.rs",
        "every_text_has_its_code_and_every_row_its_text",
    ),
    (
        Code::AclPolicyNotFound,
        "src/nomad/error/tests.rs",
        "every_text_has_its_code_and_every_row_its_text",
    ),
    (
        Code::VariableNotFound,
        "src/nomad/error/tests.rs",
        "every_text_has_its_code_and_every_row_its_text",
    ),
    (
        Code::VariableTooLarge,
        "src/nomad/error/tests.rs",
        "every_text_has_its_code_and_every_row_its_text",
    ),
    (
        Code::VariableLockLost,
        "src/nomad/error/tests.rs",
        "every_text_has_its_code_and_every_row_its_text",
    ),
    (
        Code::LedgerHeld,
        "src/reconcile/ledger/tests.rs",
        "a_second_waits_for_the_first_and_hears_who_it_is",
    ),
    (
        Code::VolumePending,
        "src/server/volumes/tests/delete.rs",
        "an_open_deletion_is_finished_by_the_next_one",
    ),
    (
        Code::VolumeBeingDeleted,
        "src/server/volumes/tests/delete.rs",
        "an_open_deletion_is_finished_by_the_next_one",
    ),
    (
        Code::SnapshotInvalid,
        "src/server/volumes/tests/provider.rs",
        "what_can_never_be_cut_is_refused_without_a_call",
    ),
    (
        Code::SnapshotConflict,
        "src/server/volumes/tests/provider.rs",
        "a_name_is_one_snapshot",
    ),
    (
        Code::SnapshotPending,
        "src/server/volumes/tests/provider.rs",
        "every_fault_of_a_snapshot_is_finished_by_the_same_request",
    ),
    (
        Code::VariableInvalid,
        "src/server/http/variables/tests.rs",
        "what_is_refused_has_a_code_of_its_own",
    ),
    (
        Code::ServerBusy,
        "src/server/volumes/tests/register.rs",
        "waiting_has_an_end",
    ),
    (
        Code::ServerStopping,
        "src/server/volumes/tests/register.rs",
        "after_a_stop_nothing_begins_and_what_runs_is_cut_off",
    ),
    (
        Code::ServerSecrets,
        "src/server/error/server_error.rs",
        "what_is_the_servers_own_has_a_code_of_its_own",
    ),
    (
        Code::ServerUnknownPath,
        "src/server/error/server_error.rs",
        "what_is_the_servers_own_has_a_code_of_its_own",
    ),
    (
        Code::JournalDiskFull,
        "src/server/volumes/tests/register.rs",
        "what_cannot_be_made_durable_is_an_error_and_works_later",
    ),
    (
        Code::JournalUnavailable,
        "src/server/volumes/tests/create.rs",
        "a_journal_that_fails_at_any_write_loses_and_doubles_nothing",
    ),
    (
        Code::JournalInUse,
        "src/store/embedded/tests.rs",
        "a_second_process_is_told_that_the_file_is_in_use",
    ),
    (
        Code::JournalDamaged,
        "src/store/embedded/tests.rs",
        "an_append_replaces_what_was_never_acknowledged_and_leaves_no_gap",
    ),
    (
        Code::JournalTooNew,
        "src/store/embedded/tests.rs",
        "a_later_format_is_refused_with_both_numbers",
    ),
    (
        Code::AgentPortInUse,
        "src/agent/listen/tests.rs",
        "a_port_in_use_is_told_with_what_to_do",
    ),
    (
        Code::AgentCannotListen,
        "src/agent/listen/tests.rs",
        "an_address_of_another_machine_is_told",
    ),
    (
        Code::AgentDirectory,
        "src/agent/directory.rs",
        "a_directory_that_cannot_be_made_is_named",
    ),
    (
        Code::LogBadFilter,
        "src/telemetry/log.rs",
        "a_filter_that_cannot_be_read_is_an_error",
    ),
    (
        Code::DataInUse,
        "src/agent/claim.rs",
        "a_second_agent_is_told_who_has_the_directory_and_what_to_do",
    ),
    (
        Code::DataUnavailable,
        "src/store/lock.rs",
        "a_directory_that_is_not_there_is_named",
    ),
    (
        Code::KeyMissing,
        "src/store/seal/tests.rs",
        "sealed_secrets_without_their_key_are_refused_and_no_key_is_made",
    ),
    (
        Code::KeyWrong,
        "src/store/seal/tests.rs",
        "sealed_secrets_without_their_key_are_refused_and_no_key_is_made",
    ),
    (
        Code::KeyExposed,
        "src/store/seal/tests.rs",
        "a_key_that_others_may_read_is_refused_with_the_command_that_helps",
    ),
    (
        Code::KeyMalformed,
        "src/store/seal/tests.rs",
        "what_is_no_key_is_not_taken_for_one_and_not_replaced",
    ),
    (
        Code::KeyUnavailable,
        "src/store/seal/tests.rs",
        "a_directory_that_cannot_be_used_is_named",
    ),
    (
        Code::SecretNotText,
        "src/secrets/local.rs",
        "of_a_file_one_line_break_is_cut",
    ),
    (
        Code::SecretTooLarge,
        "src/secrets/local.rs",
        "of_a_file_one_line_break_is_cut",
    ),
    (
        Code::SecretExposed,
        "src/secrets/local.rs",
        "a_file_that_others_can_write_is_refused_and_one_they_can_read_warned_of",
    ),
    (
        Code::ApplyHeldBack,
        "src/reconcile/execute/tests.rs",
        "a_copy_is_made_after_its_source_and_not_without_it",
    ),
    (
        Code::ApplySnapshotNotReady,
        "src/reconcile/execute/tests.rs",
        "nothing_is_replaced_while_its_snapshot_is_not_ready",
    ),
    (
        Code::ApplySnapshotTaken,
        "src/reconcile/execute/tests.rs",
        "a_snapshot_that_is_wanted_first_is_cut_first",
    ),
    (
        Code::Internal,
        "src/server/volumes/tests/create.rs",
        "an_open_creation_is_continued_under_the_same_name",
    ),
];

/// Architecture, section 6: a code that nobody has ever seen is a promise without cover.
#[test]
fn every_code_is_shown_in_a_transcript_or_has_a_test_of_its_own() {
    let mut paths = vec![];
    files(&folder(), &mut paths);
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("transcripts are readable");
    let shown: String = paths.iter().map(read).collect();
    let mut problems = vec![];
    for code in Code::ALL {
        let in_transcript =
            shown.contains(&format!("[{code}]: ")) || shown.contains(&format!("\"{code}\","));
        let elsewhere = SHOWN_ELSEWHERE.iter().find(|(other, ..)| other == code);
        match (in_transcript, elsewhere) {
            (true, None) => {}
            (true, Some(_)) => {
                problems.push(format!("{code} is in a transcript: strike it off the list"));
            }
            (false, None) => problems.push(format!("{code} is shown nowhere")),
            (false, Some((_, file, test))) => {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                // By its name, its word, or a port's name for it.
                let names = [
                    format!("Code::{code:?}"),
                    format!("\"{code}\""),
                    kind(*code),
                ];
                let names_it = names.iter().any(|name| text.contains(name));
                if !text.contains(&format!("fn {test}(")) || !names_it {
                    problems.push(format!("{code}: {file} has no test {test} that names it"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// `JournalErrorKind::Damaged` for `JournalDamaged`.
fn kind(code: Code) -> String {
    let name = format!("{code:?}");
    name.replacen("Journal", "JournalErrorKind::", 1)
}

/// What is a secret in a transcript's files is in none of its answers.
#[test]
fn no_transcript_shows_a_secret() {
    let mut paths = vec![];
    files(&folder(), &mut paths);
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("transcripts are readable");
        let consoles = text.split("```console\n").skip(1);
        for console in consoles.map(|rest| rest.split("\n```").next().unwrap_or_default()) {
            for secret in ["do-not-show-me", "s3cret", "canary-tf", "canary-flag"] {
                assert!(!console.contains(secret), "{}: {secret}", path.display());
            }
        }
    }
}
