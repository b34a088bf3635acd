//! The messages about owned volumes whose data is not confirmed, or is not the recorded data.

use super::action::UnconfirmedReason;
use super::ledger::DataIdentity;
use super::selector::selector;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::shell_quoted;
use nomad_csi_spec::VolumeSpec;

/// Warns that a new volume would take the place of data that may still exist.
pub(super) fn unconfirmed_data(
    spec: &VolumeSpec,
    lost: Option<&DataIdentity>,
    why: &UnconfirmedReason,
) -> Diagnostic {
    let message = format!(
        "volume {} is gone from the server, and it is not certain that its data still exists",
        spec.key().quoted()
    );
    let warning = Diagnostic::warning(Code::PlanDataUnconfirmed, message)
        .label(spec.span, "")
        .note(where_it_was(lost))
        .note(why.to_string())
        .note("the new volume would be empty, beside the old data if that still exists");
    with_way_back(warning, spec, lost)
}

/// Refuses to put a new volume in the place of protected data.
pub(super) fn protected_data(
    spec: &VolumeSpec,
    lost: Option<&DataIdentity>,
    why: &UnconfirmedReason,
    set: &str,
) -> Diagnostic {
    let key = spec.key();
    let message = format!(
        "cannot create volume {} again without its data: set `{set}` protects it",
        key.quoted()
    );
    let problem = Diagnostic::error(Code::PlanProtected, message)
        .label(spec.span, "")
        .note(where_it_was(lost))
        .note(why.to_string());
    let problem = with_way_back(problem, spec, lost);
    let selector = selector(&key);
    problem.help(format!(
        "to give up the data, add `--replace {}` and `--approve {}`",
        shell_quoted(&selector),
        shell_quoted(format_args!("destroys-data:{selector}"))
    ))
}

/// Refuses a volume whose registration names other data than the set recorded.
pub(super) fn changed_data(
    spec: &VolumeSpec,
    recorded: &DataIdentity,
    now: &DataIdentity,
    set: &str,
    why: Option<&UnconfirmedReason>,
) -> Diagnostic {
    let key = spec.key();
    let message =
        format!("cannot apply volume {}: the server has other data under this name", key.quoted());
    let problem = Diagnostic::error(Code::PlanDataChanged, message)
        .label(spec.span, "")
        .note(format!("set `{set}` recorded {recorded}"))
        .note(format!("the server now has {now}"));
    let problem = match why {
        Some(why) => problem.note(why.to_string()),
        None => problem,
    };
    problem
        .help(accept_other_data(spec, set))
        .help(format!("to get the old data back, deregister the volume and register {recorded}"))
}

/// Refuses to register other data than the set recorded for a volume that is gone.
pub(super) fn other_data(
    spec: &VolumeSpec,
    recorded: &DataIdentity,
    named: &DataIdentity,
    set: &str,
) -> Diagnostic {
    let message = format!(
        "cannot register volume {}: the file names other data than the set recorded",
        spec.key().quoted()
    );
    Diagnostic::error(Code::PlanDataChanged, message)
        .label(spec.field_span("external_id"), "")
        .note(format!("set `{set}` recorded {recorded}"))
        .note(format!("the file names {named}"))
        .help(accept_other_data(spec, set))
        .help("to get the old data back, set its `external_id` in the file")
}

fn accept_other_data(spec: &VolumeSpec, set: &str) -> String {
    let request = &spec.request;
    let namespace = match spec.key().namespace == nomad_csi_model::Namespace::default() {
        true => String::new(),
        false => format!(" --namespace {}", shell_quoted(&request.namespace)),
    };
    format!(
        "to accept the other data, run `nomad-csi forget {}{namespace} --set {set}`, then run this command again",
        shell_quoted(&request.id)
    )
}

fn where_it_was(lost: Option<&DataIdentity>) -> String {
    match lost {
        Some(lost) => format!("its data is {lost}"),
        None => "its external ID was never recorded".to_owned(),
    }
}

fn with_way_back(
    problem: Diagnostic,
    spec: &VolumeSpec,
    lost: Option<&DataIdentity>,
) -> Diagnostic {
    match lost {
        Some(lost) => problem.help(format!(
            "to get the data back, set `external_id = {:?}` in the file; the volume is then registered again",
            lost.external_id.as_str()
        )),
        None => problem.help(format!(
            "to get the data back, find its external ID with `nomad-csi orphans --plugin {}`, and set it as `external_id` in the file",
            shell_quoted(&spec.request.plugin_id)
        )),
    }
}
