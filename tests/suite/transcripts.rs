//! Transcripts of the command line: one test per file in `tests/transcripts`.

use std::path::{Path, PathBuf};

use nomad_csi_model::diagnostic::Code;

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
    apply_makes_changes_after_approval = "apply/apply.md";
    an_interrupt_completes_requests_in_flight = "apply/interrupt.md";
    apply_requires_approval_by_risk = "apply/approvals.md";
    a_saved_plan_is_applied_once = "apply/saved.md";
    apply_changes_nothing_before_all_checks_pass = "apply/before.md";
    a_set_owns_the_volumes_applied_with_it = "apply/set.md";
    a_volume_of_two_sets_is_reported = "set/two.md";
    a_set_can_become_empty = "apply/empty.md";
    lost_registrations_are_made_again = "apply/lost.md";
    exchanged_data_is_refused = "apply/exchanged.md";
    import_from_nomad = "import/nomad.md";
    import_from_the_agent = "import/agent.md";
    import_from_terraform = "import/terraform.md";
    reconcile_runs_until_an_interrupt = "reconcile/reconcile.md";
    drift_reports_recorded_changes = "drift/recorded.md";
    drift_on_the_agent = "drift/agent.md";
    secrets_are_resolved_right_before_a_request = "apply/secrets.md";
    references_and_sets_are_checked = "validate/references.md";
    a_second_interrupt_aborts = "apply/leave.md";
    auth_check_reports_permissions = "auth/check.md";
    contexts_name_clusters = "context/contexts.md";
    invalid_config_files_are_reported = "context/wrong.md";
    a_failure_does_not_stop_other_volumes = "apply/refused.md";
    a_volume_that_changed_since_the_plan_is_skipped = "apply/stale.md";
    unusable_servers_are_reported = "errors/server.md";
    invalid_settings_are_reported = "errors/settings.md";
    plan_shows_refusals = "plan/blocked.md";
    plan_and_drift_compare_with_providers = "plan/provider.md";
    plan_shows_creations = "plan/create.md";
    plan_shows_updates = "plan/update.md";
    plan_writes_reports_for_ci = "plan/formats.md";
    plan_accounts_for_hidden_values = "plan/hidden.md";
    plan_shows_risks = "plan/risk.md";
    a_policy_forbids_changes = "plan/policy.md";
    data_of_another_volume_is_not_registered_again = "plan/shared.md";
    plan_saves_a_plan = "plan/saved.md";
    plan_accounts_for_the_server_version = "plan/versions.md";
    plan_compares_files_of_plugins_with_the_server = "plan/plugins.md";
    what_a_server_knows_of_a_plugin_is_written_to_a_file = "plugin/snapshot.md";
    volumes_are_checked_against_files_of_plugins = "validate/plugins.md";
    plugin_status_shows_plugins = "plugin/status.md";
    the_capacity_of_a_provider_is_shown = "plugin/capacity.md";
    plugin_impact_shows_what_would_be_lost = "plugin/impact.md";
    the_placement_of_a_job_is_explained = "job/placement.md";
    namespaces_of_the_embedded_agent = "namespace/embedded.md";
    tokens_and_policies = "acl/acl.md";
    a_socket_without_a_plugin_is_reported = "plugin/socket.md";
    what_an_upgrade_of_a_plugin_takes_away = "plugin/diff.md";
    completion_scripts_and_manual_are_printed = "command_line/completion.md";
    sets_in_a_file_are_shown_and_forgotten = "set/file.md";
    a_tree_with_several_sets_is_several_runs = "set/tree.md";
    sets_in_variables_are_shown_and_forgotten = "set/nomad.md";
    snapshots_are_created_listed_and_deleted = "snapshot/snapshot.md";
    snapshots_of_the_embedded_agent = "snapshot/embedded.md";
    a_volume_is_detached = "volume/detach.md";
    claims_are_listed = "volume/claims.md";
    volumes_of_the_agent_are_diagnosed = "volume/doctor.md";
    volumes_on_nomad_are_diagnosed = "volume/doctor-nomad.md";
    claims_that_the_server_dropped_count = "volume/dropped-claim.md";
    claims_are_not_shown_by_nomad = "volume/claims-nomad.md";
    a_volume_is_claimed_and_released = "volume/claim.md";
    claims_of_the_embedded_agent = "volume/claim-embedded.md";
    the_history_of_a_volume_is_shown = "volume/journal.md";
    the_history_of_a_volume_of_the_embedded_agent = "embedded/journal.md";
    a_node_is_fenced_and_unfenced = "volume/fence.md";
    volume_wait_waits_for_a_state = "volume/wait.md";
    a_volume_is_expanded = "volume/expand.md";
    orphans_are_listed_registered_and_deleted = "orphans/orphans.md";
    orphans_of_the_embedded_agent = "orphans/embedded.md";
    words_of_other_programs_are_understood = "command_line/other-words.md";
    codes_are_explained = "command_line/explain.md";
    wrong_usage_is_an_error = "command_line/usage.md";
    one_set_of_files_for_several_environments = "language/fleet.md";
    problems_of_the_language_name_their_places = "language/problems.md";
    volumes_are_printed_as_they_are_evaluated = "language/render.md";
    all_problems_are_reported_in_one_run = "validate/everything-at-once.md";
    job_files_without_errors_are_valid = "job/valid.md";
    jobs_are_checked_against_their_volumes = "job/lint.md";
    a_job_is_run_and_followed = "job/run.md";
    the_changes_of_a_job_are_planned = "job/plan.md";
    jobs_are_dispatched_and_launched = "job/launching.md";
    jobs_are_shown_and_stopped = "job/status.md";
    allocations_are_shown_logged_and_stopped = "alloc/alloc.md";
    tasks_are_restarted_and_their_files_shown = "alloc/tasks.md";
    nodes_are_shown_and_drained = "node/node.md";
    names_and_numbers_of_job_files_are_checked = "job/names.md";
    problems_of_job_files_are_reported_at_their_places = "job/invalid.md";
    mistakes_in_texts_of_job_files_are_marked = "job/texts.md";
    expressions_and_templates_of_job_files_name_the_way_out = "job/expressions.md";
    files_of_other_tools_are_one_error = "validate/other-forms.md";
    silent_mistakes_of_the_language_are_reported = "language/silent.md";
    hcl_is_formatted = "fmt/fmt.md";
    a_specification_is_converted = "convert/convert.md";
    a_language_server_needs_an_editor = "lsp/lsp.md";
    unreadable_files_are_reported = "validate/files.md";
    differences_from_nomads_parser_are_reported = "validate/nomad-hcl.md";
    unsendable_values_are_refused = "errors/unsendable.md";
    keys_and_values_are_checked_against_the_schema = "validate/keys.md";
    rules_of_a_volume_are_checked = "validate/rules.md";
    refusals_of_servers_have_codes = "errors/refusals.md";
    a_misspelt_key_is_underlined = "validate/misspelt-key.md";
    conflicting_namespaces_are_an_error = "validate/namespace.md";
    a_volume_is_created_by_name = "volume/create.md";
    volume_delete_refuses_unsafe_deletions = "volume/delete.md";
    a_volume_is_deregistered = "volume/deregister.md";
    volumes_of_a_set_are_protected_from_removal = "volume/owned.md";
    volume_init_never_overwrites_a_file = "volume/init.md";
    an_agent_that_cannot_start_reports_the_reason = "embedded/agent.md";
    a_server_or_a_node_that_cannot_start_reports_the_reason = "embedded/cluster.md";
    lifecycle_of_one_volume = "embedded/lifecycle.md";
    changes_of_volumes_are_watched = "volume/watch.md";
    volumes_are_listed = "volume/status-list.md";
    a_creation_is_shown_and_given_up = "volume/abandon.md";
    a_volume_is_shown = "volume/status-one.md";
    the_usage_of_a_volume_is_shown = "volume/status-stats.md";
    mutable_parameters_of_a_volume_are_changed = "volume/modify.md";
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The transcript that runs on a real server.
const REAL: &str = "real/session.md";

/// Run with `NOMAD_ADDR=http://127.0.0.1:4646 cargo test --test suite real_session -- --ignored`.
/// Requires Nomad 1.7 or later without TLS and ACLs, and a plugin `hostpath` that creates volumes.
/// Leaves the variables of an empty set `session`.
#[test]
#[ignore = "needs a Nomad server with a CSI plugin: set NOMAD_ADDR"]
fn real_session_on_a_server() {
    let address = std::env::var("NOMAD_ADDR").expect("NOMAD_ADDR with the address of the server");
    transcript::check_at(&folder().join(REAL), &address);
}

#[test]
fn every_transcript_is_listed() {
    let mut found = vec![];
    files(&folder(), &mut found);
    let mut found: Vec<String> = found
        .iter()
        .map(|path| {
            path.strip_prefix(folder())
                .expect("a path below the folder")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    let mut listed = LISTED.to_vec();
    listed.push(REAL);
    listed.sort_unstable();
    assert_eq!(found, listed, "left: existing files; right: files listed in this test");
}

/// Codes that appear in no transcript, with the file and the name of a test that covers them.
const COVERED_BY_TESTS: &[(Code, &str, &str)] = &[
    (
        Code::PlanOfflineExpansion,
        "src/plan/offline_expansions.rs",
        "an_offline_expansion_of_a_volume_in_use_is_blocked",
    ),
    (
        Code::PlanDataNotListed,
        "src/plan/provided_data/tests.rs",
        "a_registration_of_data_that_the_provider_does_not_list_is_reported",
    ),
    (
        Code::PlanSourceTooLarge,
        "src/plan/provided_data/tests.rs",
        "a_source_that_is_larger_than_the_volume_may_be_is_blocked",
    ),
    (
        Code::NodeUnreachable,
        "src/server/http/tests/logs.rs",
        "the_output_of_a_task_on_a_node_without_a_connection_is_not_read",
    ),
    (
        Code::ApplyServerAway,
        "src/client/reconcile/workflow/server_unreachable.rs",
        "one_problem_counts_and_names_what_is_unknown_and_what_was_not_begun",
    ),
    (
        Code::CliNoMatch,
        "src/cli/ui/output.rs",
        "a_path_that_leads_to_nothing_is_an_error_unless_it_is_a_search",
    ),
    (
        Code::CliOutputFailed,
        "tests/suite/bad_input.rs",
        "a_closed_pipe_is_no_error_and_a_full_disk_is_one",
    ),
    (Code::FilesTooLarge, "tests/suite/bad_input.rs", "unreadable_files_are_named"),
    (
        Code::JobRootTask,
        "src/server/jobs/tests.rs",
        "a_task_of_root_is_refused_unless_the_operator_allows_it",
    ),
    (
        Code::FilesForeignLink,
        "tests/suite/bad_input.rs",
        "nothing_of_a_file_outside_the_tree_is_shown",
    ),
    (Code::FilesTimedOut, "tests/suite/spec_files.rs", "a_pipe_without_a_writer_ends_at_its_limit"),
    (Code::JournalMissing, "tests/e2e/agent_remains.rs", "a_journal_that_is_gone_is_not_replaced"),
    (
        Code::PlanRenamedInstance,
        "src/plan/renamed.rs",
        "a_renamed_key_of_a_block_is_explained_once_at_the_block",
    ),
    (Code::SpecTooManyValues, "src/spec/tests/limits.rs", "a_file_has_a_limit_of_values"),
    (Code::SpecTooManyVolumes, "src/spec/tests/limits.rs", "a_file_has_a_limit_of_volumes"),
    (
        Code::SpecEvaluationLimit,
        "src/spec/expression/tests.rs",
        "hostile_values_end_within_their_limits",
    ),
    (Code::FilesNotUtf8, "tests/suite/bad_input.rs", "unreadable_files_are_named"),
    (Code::FilesBadPattern, "tests/suite/bad_input.rs", "unreadable_files_are_named"),
    (
        Code::AgentPluginNotHealthy,
        "tests/suite/bad_input.rs",
        "an_embedded_plugin_that_does_not_start_is_reported",
    ),
    (Code::ApiUnreachable, "tests/suite/client_failures.rs", "an_unreachable_address_is_reported"),
    (Code::ApiUnknownHost, "tests/suite/client_failures.rs", "an_unknown_host_is_reported"),
    (
        Code::ApiTls,
        "tests/suite/client_tls.rs",
        "a_write_without_the_client_certificate_has_no_effect",
    ),
    (Code::ApiTooLarge, "tests/suite/client_answers.rs", "a_response_above_the_limit_is_refused"),
    (
        Code::ApiRateLimited,
        "tests/suite/client_failures.rs",
        "retries_of_a_busy_server_are_bounded",
    ),
    (Code::ApiNoLeader, "tests/suite/client_failures.rs", "retries_of_a_busy_server_are_bounded"),
    (
        Code::ApiListChanged,
        "src/client/nomad/error_table/tests.rs",
        "every_text_has_a_code_and_every_row_a_text",
    ),
    (
        Code::VariableNotFound,
        "src/client/nomad/error_table/tests.rs",
        "every_text_has_a_code_and_every_row_a_text",
    ),
    (
        Code::VariableTooLarge,
        "src/client/nomad/error_table/tests.rs",
        "every_text_has_a_code_and_every_row_a_text",
    ),
    (
        Code::VariableLockLost,
        "src/client/nomad/error_table/tests.rs",
        "every_text_has_a_code_and_every_row_a_text",
    ),
    (
        Code::LedgerHeld,
        "src/client/reconcile/ledger/tests.rs",
        "a_second_command_waits_and_learns_the_holder",
    ),
    (
        Code::VolumeBeingDeleted,
        "src/server/volumes/tests/delete.rs",
        "a_pending_deletion_is_completed_by_the_next_delete",
    ),
    (
        Code::SnapshotInvalid,
        "src/server/volumes/tests/provider.rs",
        "an_invalid_snapshot_is_refused_without_a_call",
    ),
    (Code::SnapshotConflict, "src/server/volumes/tests/provider.rs", "one_name_is_one_snapshot"),
    (
        Code::SnapshotPending,
        "src/server/volumes/tests/provider.rs",
        "every_fault_of_a_snapshot_is_resolved_by_the_same_request",
    ),
    (Code::VariableInvalid, "src/server/http/variables/tests.rs", "refusals_have_their_own_codes"),
    (Code::ServerBusy, "src/server/volumes/tests/register.rs", "waiting_ends_with_an_error"),
    (
        Code::ServerStopping,
        "src/server/volumes/tests/register.rs",
        "a_stop_refuses_new_operations_and_aborts_running_ones",
    ),
    (
        Code::ServerSecrets,
        "src/server/error/server_error.rs",
        "errors_that_nomad_does_not_have_have_their_own_codes",
    ),
    (
        Code::ServerLimit,
        "src/server/cell/state_limits/tests.rs",
        "a_limit_that_is_reached_has_a_code",
    ),
    (
        Code::ServerUnknownPath,
        "src/server/error/server_error.rs",
        "errors_that_nomad_does_not_have_have_their_own_codes",
    ),
    (
        Code::JournalDiskFull,
        "src/server/volumes/tests/register.rs",
        "a_journal_failure_is_an_error_and_a_retry_succeeds",
    ),
    (
        Code::JournalInUse,
        "src/server/store/embedded/tests.rs",
        "a_second_process_is_refused_because_the_file_is_in_use",
    ),
    (
        Code::JournalDamaged,
        "src/server/store/embedded/tests.rs",
        "an_append_replaces_unacknowledged_events_and_refuses_a_gap",
    ),
    (
        Code::JournalTooNew,
        "src/server/store/embedded/tests.rs",
        "a_later_format_is_refused_with_both_numbers",
    ),
    (
        Code::JournalEtcdFull,
        "src/etcd/journal/tests.rs",
        "a_full_etcd_refuses_certainly_only_what_was_never_unknown",
    ),
    (
        Code::JournalNotLeader,
        "src/etcd/journal/tests.rs",
        "a_deposed_leader_writes_nothing_and_says_what_it_knows",
    ),
    (Code::AgentPortInUse, "src/agent/listen/tests.rs", "a_port_in_use_is_reported_with_help"),
    (
        Code::AgentCannotListen,
        "src/agent/listen/tests.rs",
        "an_address_of_another_machine_is_reported",
    ),
    (
        Code::AgentDirectory,
        "src/agent/directory.rs",
        "the_error_names_a_directory_that_cannot_be_created",
    ),
    (Code::LogBadFilter, "src/telemetry/log.rs", "an_invalid_filter_is_an_error"),
    (
        Code::DataInUse,
        "src/agent/data_dir_lock.rs",
        "the_error_names_the_owner_of_the_lock_and_what_to_do",
    ),
    (Code::DataUnavailable, "src/server/store/lock.rs", "a_missing_directory_is_named"),
    (
        Code::AgentNodeId,
        "src/agent/node_registration.rs",
        "a_damaged_identity_is_an_error_with_its_file",
    ),
    (
        Code::KeyMissing,
        "src/server/store/seal/tests.rs",
        "sealed_secrets_without_their_key_are_refused_and_no_key_is_created",
    ),
    (
        Code::KeyWrong,
        "src/server/store/seal/tests.rs",
        "sealed_secrets_without_their_key_are_refused_and_no_key_is_created",
    ),
    (
        Code::KeyExposed,
        "src/server/store/seal/tests.rs",
        "an_exposed_key_is_refused_with_the_command_to_fix_it",
    ),
    (
        Code::KeyMalformed,
        "src/server/store/seal/tests.rs",
        "a_malformed_key_is_refused_and_not_replaced",
    ),
    (Code::KeyUnavailable, "src/server/store/seal/tests.rs", "an_unusable_directory_is_named"),
    (
        Code::SecretNotText,
        "src/client/secrets/local.rs",
        "one_line_break_at_the_end_of_a_file_is_removed",
    ),
    (
        Code::SecretTooLarge,
        "src/client/secrets/local.rs",
        "one_line_break_at_the_end_of_a_file_is_removed",
    ),
    (
        Code::SecretExposed,
        "src/client/secrets/local.rs",
        "a_writable_file_is_refused_and_a_readable_one_warns",
    ),
    (
        Code::ApplyHeldBack,
        "src/client/reconcile/execute/tests.rs",
        "a_copy_starts_after_its_source_succeeds",
    ),
    (
        Code::ApplySnapshotNotReady,
        "src/client/reconcile/execute/tests.rs",
        "nothing_is_replaced_until_its_snapshot_is_ready",
    ),
    (
        Code::ApplySnapshotTaken,
        "src/client/reconcile/execute/tests.rs",
        "a_requested_snapshot_is_taken_before_the_replacement",
    ),
    (
        Code::ApiForeignRequest,
        "src/server/http/tests.rs",
        "a_request_of_a_web_page_is_refused_with_its_code",
    ),
    (Code::ApiOperatorOnly, "tests/e2e/rights.rs", "the_ways_that_a_refusal_names_work"),
    (Code::AgentBadHostVolume, "src/agent/config.rs", "host_volumes_are_existing_directories"),
    (Code::AgentBadLimit, "src/agent/config.rs", "limits_and_names_are_parsed"),
    (
        Code::FileNotPrivate,
        "tests/e2e/untrusted_clients.rs",
        "a_planted_link_is_neither_followed_nor_truncated",
    ),
    (
        Code::Internal,
        "src/server/volumes/tests/create.rs",
        "a_pending_creation_is_continued_under_the_same_name",
    ),
];

/// Every diagnostic code must be reachable.
#[test]
fn every_code_appears_in_a_transcript_or_a_listed_test() {
    let mut paths = vec![];
    files(&folder(), &mut paths);
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a readable transcript");
    let shown: String = paths.iter().map(read).collect();
    let mut problems = vec![];
    for code in Code::ALL {
        let in_transcript =
            shown.contains(&format!("[{code}]: ")) || shown.contains(&format!("\"{code}\","));
        let elsewhere = COVERED_BY_TESTS.iter().find(|(other, ..)| other == code);
        match (in_transcript, elsewhere) {
            (true, None) => {}
            (true, Some(_)) => {
                problems.push(format!("{code} is in a transcript: remove it from the list"));
            }
            (false, None) => {
                problems.push(format!("{code} appears in no transcript and no listed test"));
            }
            (false, Some((_, file, test))) => {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                // By its variant, its text, or the name of its port error.
                let names = [format!("Code::{code:?}"), format!("\"{code}\""), kind(*code)];
                let names_it = names.iter().any(|name| text.contains(name));
                if !text.contains(&format!("fn {test}(")) || !names_it {
                    problems.push(format!("{code}: {file} has no test {test} that names it"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Returns `JournalErrorKind::Damaged` for `JournalDamaged`.
fn kind(code: Code) -> String {
    let name = format!("{code:?}");
    name.replacen("Journal", "JournalErrorKind::", 1)
}

/// A secret in the files of a transcript never appears in its output.
#[test]
fn no_transcript_shows_a_secret() {
    let mut paths = vec![];
    files(&folder(), &mut paths);
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a readable transcript");
        for (at, start) in text.match_indices("```console\n") {
            // A block whose output has a fence has a longer one.
            let fence = if text[..at].ends_with('`') { "\n````" } else { "\n```" };
            let rest = &text[at + start.len()..];
            let console = rest.split(fence).next().unwrap_or_default();
            for secret in ["do-not-show-me", "s3cret", "canary-tf", "canary-flag"] {
                assert!(!console.contains(secret), "{}: {secret}", path.display());
            }
        }
    }
}
