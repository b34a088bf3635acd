//! The table that maps Nomad's error texts to codes.
//!
//! An error of Nomad is one line of text, or several in go-multierror's form. Each agent that
//! forwards the request adds the prefix `rpc error: `. Texts that only the server writes match from
//! the start of a line, because a plugin's text can follow later in the line: `volume not found`
//! from a plugin is not a missing volume. All other texts match anywhere. The first matching row
//! wins. The status helps little, because Nomad reports nearly every error as 500.

use nomad_csi_model::diagnostic::Code;

/// How a row matches a line.
#[derive(Clone, Copy, Debug)]
enum TextPattern {
    /// The whole line.
    Exact(&'static str),
    /// The start of the line.
    Prefix(&'static str),
    /// All of these texts, in this order, anywhere.
    Contains(&'static [&'static str]),
}

impl TextPattern {
    fn matches(self, line: &str) -> bool {
        match self {
            Self::Exact(text) => line == text,
            Self::Prefix(text) => line.starts_with(text),
            Self::Contains(texts) => {
                let mut rest = line;
                texts.iter().all(|text| match rest.find(text) {
                    Some(at) => {
                        rest = &rest[at + text.len()..];
                        true
                    }
                    None => false,
                })
            }
        }
    }
}

/// The meaning of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ErrorMeaning {
    pub(super) code: Code,
    /// The reason after "cannot create volume `db0`: ".
    pub(super) reason: &'static str,
    /// Help that is more specific than the code's.
    pub(super) help: Option<&'static str>,
}

struct TableRow {
    pattern: TextPattern,
    meaning: ErrorMeaning,
}

macro_rules! table {
    ($($form:ident $text:expr => $code:ident, $reason:literal $(, $help:literal)?;)*) => {
        &[$(TableRow {
            pattern: TextPattern::$form($text),
            meaning: ErrorMeaning { code: Code::$code, reason: $reason, help: table!(@ $($help)?) },
        }),*]
    };
    (@) => { None };
    (@ $help:literal) => { Some($help) };
}

const TABLE: &[TableRow] = table! {
    // The cluster.
    Exact "No cluster leader" => ApiNoLeader, "the servers have no leader";
    Exact "Not ready to serve consistent reads" => ApiNoLeader, "the leader is not ready yet";
    Prefix "No path to region" => ApiUnknownRegion, "the server does not know the region";
    Prefix "Your IP is issuing too many concurrent connections" => ApiRateLimited,
        "the server limits the connections of this machine";
    Prefix "Client sent an HTTP request to an HTTPS server" => ApiTls,
        "the server requires TLS, but the address uses `http`", "use `https://` in the address";

    // The token.
    Exact "ACL support disabled" => ApiAclDisabled, "ACLs are disabled on the server";
    Exact "ACL token not found" => ApiUnknownToken, "the server does not know the token";
    Contains &["acl token lookup failed: missing secret id"] => ApiForbidden,
        "the server requires a token", "set NOMAD_TOKEN or --token";
    Contains &["ACL token expired"] => ApiUnknownToken, "the token has expired";
    Exact "ACL policy not found" => AclPolicyNotFound, "the policy does not exist";

    // Variables.
    Exact "variable not found" => VariableNotFound, "the variable does not exist";
    Contains &["variables are limited to ", " in total size"] => VariableTooLarge,
        "the variable exceeds the server's size limit";
    Exact "variable doesn't exist" => VariableLockLost, "the lock does not exist";
    Exact "variable doesn't hold a lock" => VariableLockLost, "the lock has expired";
    Contains &["all servers must be running version ", " or later to apply variables"] =>
        ApiUnsupported, "a server of the cluster does not support variables",
        "upgrade every server to Nomad 1.4 or later";

    // Jobs, allocations and nodes.
    Exact "job not found" => JobNotFound, "the job does not exist";
    Prefix "Enforcing job modify index" => JobConflict,
        "the job changed since it was planned, or its index was not given";
    Exact "parameterized job not found" => JobNotFound, "the job does not exist";
    Prefix "Dispatch did not provide required meta keys: " => JobRefused,
        "the request lacks values that the job requires", "give each with `--meta KEY=VALUE`";
    Prefix "Dispatch request included unpermitted metadata keys: " => JobRefused,
        "the request has values that the job does not take";
    Prefix "Payload is not provided but required" => JobRefused, "the job requires a payload";
    Prefix "Payload provided but forbidden" => JobRefused, "the job takes no payload";
    Prefix "Payload exceeds maximum size; " => JobRefused, "the payload is too large",
        "put the data into a volume or a file, and give its name";
    Prefix "dispatch job priority must be between " => JobRefused, "the priority is out of range";
    Contains &["Specified job \"", "\" is not a parameterized job"] => JobRefused,
        "the job is not parameterized";
    Contains &["Specified job \"", "\" is stopped"] => JobRefused, "the job is stopped";
    Prefix "can't force launch non-periodic job" => JobRefused, "the job is not periodic";
    Contains &["can't force run non-tracked job "] => JobRefused,
        "the job is stopped, not enabled, or starts only on request";
    Prefix "can't evaluate periodic job" => JobRefused, "the job runs nothing itself";
    Prefix "can't evaluate parameterized job" => JobRefused, "the job runs nothing itself";
    Contains &["cannot update ", "periodic job to being "] => JobInvalid,
        "a job stays periodic, or not", "stop the job with `--purge` first, or use another ID";
    Contains &["cannot update ", "parameterized job to being "] => JobInvalid,
        "a job stays parameterized, or not", "stop the job with `--purge` first, or use another ID";
    Exact "field 'Dispatched' is read-only" => JobInvalid,
        "the server made the job from a parameterized one", "use another ID";
    Contains &["Task group ", " validation failed"] => JobInvalid,
        "the server reports the job as invalid";
    Contains &["job \"", "\" is in nonexistent namespace"] => JobInvalid,
        "the namespace does not exist", "create it with `nomad-csi namespace create NAME`, or correct the name";
    Exact "eval not found" => AllocNotFound, "the evaluation does not exist any more",
        "run `nomad-csi job status` for the latest evaluation";
    Exact "alloc not found" => AllocNotFound, "the allocation does not exist";
    Exact "allocation not found" => AllocNotFound, "the allocation does not exist";
    Prefix "Unknown allocation \"" => AllocNotFound, "its node does not have the allocation";
    Prefix "state for allocation " => AllocNotFound, "its node keeps nothing of the allocation any more";
    Prefix "unknown task name" => AllocTask, "the allocation has no such task";
    Exact "node not found" => NodeUnknown, "the node does not exist";

    // Namespaces.
    Exact "Namespace not found" => NamespaceUnknown, "the namespace does not exist";
    Exact "namespace not found" => NamespaceUnknown, "the namespace does not exist";
    Exact "can not delete default namespace" => ApiBadRequest,
        "the default namespace always exists";
    Contains &["namespace \"", "\" has non-terminal jobs"] => NamespaceInUse,
        "jobs run in the namespace";

    // Volumes.
    Contains &["volume ", " is in nonexistent namespace "] => VolumeUnknownNamespace,
        "the namespace does not exist",
        "create it with `nomad-csi namespace create NAME`, or correct the name; after a failed create, check the provider: Nomad creates the volume there first";
    Prefix "no such volume" => VolumeNotFound, "the volume does not exist";
    Prefix "volume not found" => VolumeNotFound, "the volume does not exist";
    Prefix "volume in use" => VolumeInUse, "allocations claim the volume",
        "stop the jobs that use the volume; after a failed delete, check the data: Nomad deletes it at the provider first";
    Exact "Unknown allocation" => VolumeNotAttached, "the server has no claim of the volume there";
    Prefix "validation: " => VolumeInvalid, "the server reports the volume as invalid";
    Prefix "missing volume definition" => VolumeInvalid, "the request contains no volume";
    Contains &["max requested capacity (", ") less than or equal to "] => VolumeCapacity,
        "`capacity_max` is too small";

    // Updates of a volume, with the texts of older versions.
    Contains &["volume name cannot be updated"] => VolumeImmutableField,
        "the name cannot change";
    Contains &["volume external ID cannot be updated"] => VolumeImmutableField,
        "the external ID cannot change";
    Contains &["volume plugin ID cannot be updated"] => VolumeImmutableField,
        "the plugin cannot change";
    Contains &["volume clone ID cannot be updated"] => VolumeImmutableField,
        "`clone_id` cannot change";
    Contains &["volume snapshot ID cannot be updated"] => VolumeImmutableField,
        "`snapshot_id` cannot change";
    Contains &["volume parameters cannot be updated"] => VolumeImmutableField,
        "the parameters cannot change";
    Contains &["volume topology request update was not compatible with existing topology"] =>
        VolumeImmutableField, "the topology request cannot change";
    Contains &["volume identity cannot be updated"] => VolumeImmutableField,
        "external ID, plugin and provider cannot change";
    Prefix "volume exists: " => VolumeImmutableField,
        "the ID belongs to another volume, or the volume is in use",
        "keep its external ID and plugin, and stop the jobs that use it: Nomad before 1.3 requires both";
    Contains &["volume requested capabilities update was not compatible with existing capability in use"] =>
        VolumeInUse, "the capability in use must remain";
    Contains &["can not update mount options while volume is in use"] => VolumeInUse,
        "the mount options cannot change while allocations claim the volume";
    Contains &["volume cannot be updated while in use"] => VolumeInUse,
        "the volume cannot change while allocations claim it";
    Contains &["volume requested capacity update was not compatible with existing capacity"] =>
        VolumeCapacity, "the volume's size is not between `capacity_min` and `capacity_max`",
        "set both around the volume's size: Nomad before 1.6.3 requires both";

    // Plugins.
    Prefix "no CSI plugin named: " => PluginUnknown, "the plugin is unknown to the server";
    Prefix "plugin not found: " => PluginUnknown, "the volume's plugin no longer exists",
        "start the plugin again, or deregister the volume and delete it with the provider's tools";
    Prefix "no such plugin" => PluginUnknown, "the plugin is unknown to the server";
    Contains &["plugin missing: "] => PluginUnknown, "the volume's plugin no longer exists";
    Exact "plugin not found" => PluginNotFound, "the plugin does not exist";
    Prefix "no healthy controllers for CSI plugin" => PluginUnhealthy,
        "the plugin has no healthy controller";
    Contains &["plugin has no controller"] => PluginNoController, "the plugin has no controller";
    Contains &["plugin \"", "\" for volume \"", "\" not found"] => PluginNoController,
        "the plugin has no controller to delete the volume",
        "deregister the volume instead, and delete the data with the provider's tools";
    Contains &["plugin does not support creating volumes"] => PluginUnsupported,
        "the plugin cannot create volumes",
        "create the volume with the provider's tools, then register it with `external_id`";
    Contains &["expand is not implemented by this controller plugin"] => PluginUnsupported,
        "the plugin cannot expand volumes";
    Contains &["plugin \"", "\" does not support snapshot"] => PluginUnsupported,
        "the plugin does not support snapshots";
    Contains &["plugin does not support snapshot"] => PluginUnsupported,
        "the plugin does not support snapshots";
    Contains &["plugin does not support listing snapshots"] => PluginUnsupported,
        "the plugin cannot list snapshots";
    Contains &["unimplemented for this plugin"] => PluginUnsupported,
        "the plugin does not support this operation";

    // The connection to the controller.
    Contains &["failed to find instances of controller plugin"] => PluginUnreachable,
        "no node runs the plugin's controller";
    Contains &["failed to find clients running controller plugin"] => PluginUnreachable,
        "no node runs the plugin's controller";
    Contains &["No path to node"] => PluginUnreachable, "the plugin's node is unreachable";
    Contains &["Unknown node"] => PluginUnreachable, "the plugin's node is unknown";
    Contains &["CSI client error (retryable)"] => PluginUnreachable,
        "the connection to the plugin's controller is lost";

    Contains &["missing external node ID: "] => PluginUnreachable,
        "the provider's ID of the node is unknown",
        "start the plugin's node service on that node, or detach the volume with the provider's tools";

    // Errors of the plugin, as Nomad translates gRPC codes.
    Contains &["snapshot \"", "\" could not be deleted because it is in use"] => SnapshotInUse,
        "the provider reports that the snapshot is in use";
    Contains &["invalid starting token \""] => ApiListChanged,
        "the plugin no longer accepts the page token of the list";
    Contains &["content source", "does not exist"] => PluginSourceNotFound,
        "the source snapshot or volume does not exist at the provider";
    Contains &["already exists but is incompatible with these parameters"] => PluginConflict,
        "the provider has a different volume of that name";
    Contains &["unable to provision \"", "in accessible_topology"] => PluginExhausted,
        "the provider has no capacity in the requested topology";
    Contains &["unsupported capacity_range for volume"] => PluginCapacity,
        "the provider does not support that size";
    Contains &["volume capability validation failed"] => PluginCapability,
        "the provider does not support the requested capabilities";
    Contains &["requested capabilities not compatible with volume"] => PluginCapability,
        "the provider does not support the requested capabilities";
    Contains &["volume \"", "\" cannot be expanded online"] => VolumeInUse,
        "the provider expands the volume only while it is not in use";
    Contains &["volume \"", "\" is in use"] => VolumeInUse,
        "the provider reports that the volume is in use";
    Contains &["volume \"", "\" could not be found"] => PluginVolumeNotFound,
        "the external ID does not exist at the provider";
    Contains &["is not compatible with these parameters"] => PluginRefused,
        "the plugin rejected the parameters, the source or the secrets";
    Contains &["unknown volume access mode"] => VolumeInvalid, "an access mode is unknown";
    Contains &["unknown volume attachment mode"] => VolumeInvalid,
        "an attachment mode is unknown";
    Contains &["CSI.Controller", ": missing Name"] => VolumeInvalid, "the name is missing",
        "set `name`: the provider requires it to create a volume";
    Contains &["LimitBytes cannot be less than RequiredBytes"] => VolumeCapacity,
        "`capacity_max` is less than `capacity_min`",
        "set `capacity_max`: Nomad before 1.6.3 reads a missing one as zero";
    Contains &["controller plugin returned an internal error"] => PluginInternal,
        "the plugin returned an internal error";
    Contains &["code = DeadlineExceeded"] => ApiOutcomeUnknown,
        "the plugin timed out and may still be working";
    Contains &["context deadline exceeded"] => ApiOutcomeUnknown,
        "the plugin timed out and may still be working";
    Contains &["code = ResourceExhausted"] => PluginExhausted,
        "a limit of the provider is reached";
    Contains &["code = Unimplemented"] => PluginUnsupported,
        "the plugin does not support this operation";
    Contains &["code = Unavailable"] => PluginUnreachable, "the plugin is unavailable";
    Contains &["controller create volume: "] => PluginRefused,
        "the plugin refused to create the volume";
    Contains &["controller validate volume: "] => PluginRefused,
        "the plugin refused to validate the volume";
    Contains &["controller expand volume: "] => PluginRefused,
        "the plugin refused to expand the volume";
    Contains &["unable to expand volume: "] => PluginRefused,
        "the plugin refused to expand the volume";
    Contains &["controller delete volume: "] => PluginRefused,
        "the plugin refused to delete the volume";
    Contains &["controller create snapshot: "] => PluginRefused,
        "the plugin refused to create the snapshot";
    Contains &["controller delete snapshot: "] => PluginRefused,
        "the plugin refused to delete the snapshot";
    Contains &["controller list snapshots: "] => PluginRefused,
        "the plugin refused to list snapshots";
    Contains &["controller list volumes: "] => PluginRefused,
        "the plugin refused to list volumes";
    Contains &["could not detach from "] => PluginRefused,
        "the plugin refused to detach the volume";
};

/// Returns the meaning of the first row that matches any line.
pub(super) fn meaning(lines: &[String]) -> Option<ErrorMeaning> {
    let bare: Vec<&str> = lines.iter().map(|line| without_hops(line)).collect();
    TABLE
        .iter()
        .find(|row| bare.iter().any(|line| row.pattern.matches(line)))
        .map(|row| row.meaning)
}

/// Returns the meaning of a status, for a text that no row matches.
pub(super) fn meaning_of_status(status: u16) -> ErrorMeaning {
    let (code, reason, help) = match status {
        401 => (Code::ApiUnknownToken, "the server requires a token", None),
        400 => (Code::ApiBadRequest, "the server reports the request as malformed", None),
        404 | 405 => (
            Code::ApiNotNomad,
            "the server does not have this endpoint",
            Some("check that the address is that of Nomad 1.1 or later"),
        ),
        429 => (Code::ApiRateLimited, "the server limits the rate of requests", None),
        _ => (Code::ApiServerError, "the server reported an internal error", None),
    };
    ErrorMeaning { code, reason, help }
}

/// Returns the meaning of a 403. Its body is exactly one of two texts of Nomad.
pub(super) fn meaning_of_forbidden(text: &str, has_token: bool) -> ErrorMeaning {
    let (code, reason) = if text.ends_with("ACL token not found") {
        (Code::ApiUnknownToken, "the server does not know the token")
    } else {
        (Code::ApiForbidden, "the token lacks the permission")
    };
    let help = (!has_token).then_some("set NOMAD_TOKEN or --token: the request carried no token");
    ErrorMeaning { code, reason, help }
}

/// Returns the lines of a text, without the headers and bullets of go-multierror.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for line in text.lines() {
        let line = line.trim();
        let line = line.strip_prefix("* ").unwrap_or(line);
        let line = without_count(line).trim_end();
        if !line.is_empty() && !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Removes the count from `unable to update volume: 2 errors occurred:`.
fn without_count(line: &str) -> &str {
    let Some(rest) =
        line.strip_suffix(" error occurred:").or_else(|| line.strip_suffix(" errors occurred:"))
    else {
        return line;
    };
    rest.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Removes the `rpc error: ` of each hop; gRPC's own `rpc error: code = …` stays.
fn without_hops(line: &str) -> &str {
    let mut line = line;
    while let Some(rest) = line.strip_prefix("rpc error: ") {
        if rest.starts_with("code = ") {
            break;
        }
        line = rest;
    }
    line
}

#[cfg(test)]
mod tests;
