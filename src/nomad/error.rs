//! Nomad's text errors to codes: the one table, and what is said beside its rows.
//!
//! Nomad's errors are a line of text, or several in go-multierror's form; an agent that forwarded
//! the request puts `rpc error: ` before it, once per hop (`nomad-http-api` 2.6). A text that only
//! the server itself can have written is matched from the start of its line, because a plugin's own
//! words follow in the same line and may say anything: `volume not found` from a plugin must never
//! be taken for a volume that is gone. The rest is matched anywhere. The first row that fits wins.
//! Status codes mean little: nearly everything is 500.

use crate::diagnostic::Code;

/// How a row recognises a line.
#[derive(Clone, Copy, Debug)]
enum Words {
    /// The whole line.
    Is(&'static str),
    /// How the line starts.
    Starts(&'static str),
    /// All of these, in this order, anywhere.
    Has(&'static [&'static str]),
}

impl Words {
    fn fit(self, line: &str) -> bool {
        match self {
            Self::Is(text) => line == text,
            Self::Starts(text) => line.starts_with(text),
            Self::Has(texts) => {
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

/// What a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) code: Code,
    /// Goes on from "volume db0 was not created: ".
    pub(super) sentence: &'static str,
    /// What to do, if more is known than the code's remedy.
    pub(super) help: Option<&'static str>,
}

struct Row {
    words: Words,
    meaning: Meaning,
}

macro_rules! table {
    ($($form:ident $words:expr => $code:ident, $sentence:literal $(, $help:literal)?;)*) => {
        &[$(Row {
            words: Words::$form($words),
            meaning: Meaning { code: Code::$code, sentence: $sentence, help: table!(@ $($help)?) },
        }),*]
    };
    (@) => { None };
    (@ $help:literal) => { Some($help) };
}

const TABLE: &[Row] = table! {
    // The cluster (2.6).
    Is "No cluster leader" => ApiNoLeader, "the servers have no leader";
    Is "Not ready to serve consistent reads" => ApiNoLeader, "the leader is not ready yet";
    Starts "No path to region" => ApiUnknownRegion, "the server knows no such region";
    Starts "Your IP is issuing too many concurrent connections" => ApiRateLimited,
        "the server accepts no more connections from this machine";
    Starts "Client sent an HTTP request to an HTTPS server" => ApiTls,
        "the server wants TLS, and the address says `http`", "Write `https://` in the address.";

    // Who asks.
    Is "ACL support disabled" => ApiAclDisabled, "the server asks nobody who he is";
    Is "ACL token not found" => ApiUnknownToken, "the server does not know the token";
    Has &["acl token lookup failed: missing secret id"] => ApiForbidden,
        "it wants a token, and none was given", "Set NOMAD_TOKEN or --token.";
    Has &["ACL token expired"] => ApiUnknownToken, "the token has expired";
    Is "ACL policy not found" => AclPolicyNotFound, "there is no such policy";

    // The server itself, of a variable (`nomad-neighbour-apis` 1.12).
    Is "variable not found" => VariableNotFound, "there is no such variable";
    Has &["variables are limited to ", " in total size"] => VariableTooLarge,
        "the server takes no variable of that size";
    Is "variable doesn't exist" => VariableLockLost, "the lock is gone";
    Is "variable doesn't hold a lock" => VariableLockLost, "the lock ran out";
    Has &["all servers must be running version ", " or later to apply variables"] =>
        ApiUnsupported, "a server of the cluster is too old for variables",
        "Upgrade every server to Nomad 1.4 or later.";

    // The server itself, of a volume.
    Has &["volume ", " is in nonexistent namespace "] => VolumeUnknownNamespace,
        "its namespace does not exist",
        "Create it with `nomad namespace apply`, or correct the name. If a volume was to be created: Nomad asks the provider first, so the provider may have it now.";
    Starts "no such volume" => VolumeNotFound, "there is no such volume";
    Starts "volume not found" => VolumeNotFound, "there is no such volume";
    Starts "volume in use" => VolumeInUse, "allocations claim it",
        "Stop the jobs that use it, and wait until their allocations have ended. If it was to be deleted: Nomad asks the provider first, so check whether the data is still there.";
    Is "Unknown allocation" => VolumeNotAttached, "the server knows of nothing that it left there";
    Starts "validation: " => VolumeInvalid, "the server holds it to be invalid";
    Starts "missing volume definition" => VolumeInvalid, "the request names no volume";
    Has &["max requested capacity (", ") less than or equal to "] => VolumeCapacity,
        "`capacity_max` is too small";

    // The rules of an update (3.5), and what older versions said (8.3).
    Has &["volume name cannot be updated"] => VolumeImmutableField,
        "its name cannot change";
    Has &["volume external ID cannot be updated"] => VolumeImmutableField,
        "its external ID cannot change";
    Has &["volume plugin ID cannot be updated"] => VolumeImmutableField,
        "its plugin cannot change";
    Has &["volume clone ID cannot be updated"] => VolumeImmutableField,
        "what it was copied from cannot change";
    Has &["volume snapshot ID cannot be updated"] => VolumeImmutableField,
        "what it was restored from cannot change";
    Has &["volume parameters cannot be updated"] => VolumeImmutableField,
        "its parameters cannot change";
    Has &["volume topology request update was not compatible with existing topology"] =>
        VolumeImmutableField, "its topology request cannot change";
    Has &["volume identity cannot be updated"] => VolumeImmutableField,
        "its external ID, plugin and provider cannot change";
    Starts "volume exists: " => VolumeImmutableField,
        "a volume of that ID exists with another identity, or is in use",
        "Nomad before 1.3 replaces a volume only while nothing uses it and if its external ID and plugin stay.";
    Has &["volume requested capabilities update was not compatible with existing capability in use"] =>
        VolumeInUse, "the capability in use must stay among its capabilities";
    Has &["can not update mount options while volume is in use"] => VolumeInUse,
        "its mount options cannot change while allocations claim it";
    Has &["volume cannot be updated while in use"] => VolumeInUse,
        "it cannot change while allocations claim it";
    Has &["volume requested capacity update was not compatible with existing capacity"] =>
        VolumeCapacity, "its size does not lie between `capacity_min` and `capacity_max`",
        "Nomad before 1.6.3 wants both given, around the size that the volume has.";

    // The server itself, of a plugin.
    Starts "no CSI plugin named: " => PluginUnknown, "the server knows no such plugin";
    Starts "plugin not found: " => PluginUnknown, "its plugin is gone",
        "Start the plugin again, or deregister the volume and delete it with the provider's tools.";
    Starts "no such plugin" => PluginUnknown, "the server knows no such plugin";
    Has &["plugin missing: "] => PluginUnknown, "its plugin is gone";
    Is "plugin not found" => PluginNotFound, "there is no such plugin";
    Starts "no healthy controllers for CSI plugin" => PluginUnhealthy,
        "its plugin needs a controller, and none is healthy";
    Has &["plugin has no controller"] => PluginNoController, "its plugin has no controller";
    Has &["plugin \"", "\" for volume \"", "\" not found"] => PluginNoController,
        "its plugin has no controller that could delete it",
        "Deregister the volume instead, and delete the data with the provider's tools.";
    Has &["plugin does not support creating volumes"] => PluginUnsupported,
        "its plugin cannot create volumes", "Create it with the provider's tools, then register it with `external_id`.";
    Has &["expand is not implemented by this controller plugin"] => PluginUnsupported,
        "its plugin cannot expand volumes";
    Has &["plugin \"", "\" does not support snapshot"] => PluginUnsupported,
        "its plugin has no snapshots";
    Has &["plugin does not support snapshot"] => PluginUnsupported, "the plugin has no snapshots";
    Has &["plugin does not support listing snapshots"] => PluginUnsupported,
        "the plugin cannot list snapshots";
    Has &["unimplemented for this plugin"] => PluginUnsupported, "its plugin cannot do that";

    // Reaching the controller.
    Has &["failed to find instances of controller plugin"] => PluginUnreachable,
        "no node runs its plugin's controller";
    Has &["failed to find clients running controller plugin"] => PluginUnreachable,
        "no node runs its plugin's controller";
    Has &["No path to node"] => PluginUnreachable, "the plugin's node cannot be reached";
    Has &["Unknown node"] => PluginUnreachable, "the plugin's node is not known";
    Has &["CSI client error (retryable)"] => PluginUnreachable, "the plugin's controller is gone";

    Has &["missing external node ID: "] => PluginUnreachable,
        "the provider's name of the node is not known",
        "The plugin's node half is not running there; start it, or detach with the provider's tools.";

    // The plugin, through Nomad's translation of gRPC codes.
    Has &["snapshot \"", "\" could not be deleted because it is in use"] => SnapshotInUse,
        "the provider says that it is in use";
    Has &["invalid starting token \""] => ApiListChanged,
        "the plugin no longer knows where the list was left";
    Has &["content source", "does not exist"] => PluginSourceNotFound,
        "the provider has no such snapshot or volume to copy from";
    Has &["already exists but is incompatible with these parameters"] => PluginConflict,
        "the provider has another volume of that name";
    Has &["unable to provision \"", "in accessible_topology"] => PluginExhausted,
        "the provider has no room for it there";
    Has &["unsupported capacity_range for volume"] => PluginCapacity,
        "the provider cannot make it of that size";
    Has &["volume capability validation failed"] => PluginCapability,
        "the provider cannot use it in the ways asked for";
    Has &["requested capabilities not compatible with volume"] => PluginCapability,
        "the provider cannot use it in the ways asked for";
    Has &["volume \"", "\" cannot be expanded online"] => VolumeInUse,
        "the provider expands it only while nothing uses it";
    Has &["volume \"", "\" is in use"] => VolumeInUse, "the provider says that it is in use";
    Has &["volume \"", "\" could not be found"] => PluginVolumeNotFound,
        "the provider has no volume of that external ID";
    Has &["is not compatible with these parameters"] => PluginRefused,
        "the plugin does not accept its parameters, its source or its secrets";
    Has &["unknown volume access mode"] => VolumeInvalid, "an access mode is not known";
    Has &["unknown volume attachment mode"] => VolumeInvalid, "an attachment mode is not known";
    Has &["CSI.Controller", ": missing Name"] => VolumeInvalid, "it has no name",
        "Creating needs `name`: the provider names the volume after it.";
    Has &["LimitBytes cannot be less than RequiredBytes"] => VolumeCapacity,
        "`capacity_max` is below `capacity_min`",
        "Before Nomad 1.6.3 a missing `capacity_max` counts as zero: give it, too.";
    Has &["controller plugin returned an internal error"] => PluginInternal,
        "the plugin failed inside";
    Has &["code = DeadlineExceeded"] => ApiOutcomeUnknown,
        "the plugin did not answer in time, and may still be at it";
    Has &["context deadline exceeded"] => ApiOutcomeUnknown,
        "the plugin did not answer in time, and may still be at it";
    Has &["code = ResourceExhausted"] => PluginExhausted, "a limit of the provider is reached";
    Has &["code = Unimplemented"] => PluginUnsupported, "its plugin cannot do that";
    Has &["code = Unavailable"] => PluginUnreachable, "its plugin does not answer";
    Has &["controller create volume: "] => PluginRefused, "the plugin refused to create it";
    Has &["controller validate volume: "] => PluginRefused, "the plugin refused to validate it";
    Has &["controller expand volume: "] => PluginRefused, "the plugin refused to expand it";
    Has &["unable to expand volume: "] => PluginRefused, "the plugin refused to expand it";
    Has &["controller delete volume: "] => PluginRefused, "the plugin refused to delete it";
    Has &["controller create snapshot: "] => PluginRefused, "the plugin refused to cut it";
    Has &["controller delete snapshot: "] => PluginRefused, "the plugin refused to delete it";
    Has &["controller list snapshots: "] => PluginRefused, "the plugin refused to list them";
    Has &["controller list volumes: "] => PluginRefused, "the plugin refused to list them";
    Has &["could not detach from "] => PluginRefused, "the plugin refused to unpublish it";
};

/// What the first line that says something known means; rows come before lines.
pub(super) fn meaning(lines: &[String]) -> Option<Meaning> {
    let bare: Vec<&str> = lines.iter().map(|line| without_hops(line)).collect();
    TABLE
        .iter()
        .find(|row| bare.iter().any(|line| row.words.fit(line)))
        .map(|row| row.meaning)
}

/// What a status alone means, for a text that the table does not know.
pub(super) fn meaning_of_status(status: u16) -> Meaning {
    let (code, sentence, help) = match status {
        401 => (Code::ApiUnknownToken, "the server wants a token", None),
        400 => (
            Code::ApiBadRequest,
            "the server does not understand the request",
            None,
        ),
        404 | 405 => (
            Code::ApiNotNomad,
            "the server has nothing at that path",
            Some(
                "Nomad has had it since 1.1; an older one, or something else, answers at this address.",
            ),
        ),
        429 => (
            Code::ApiRateLimited,
            "the server accepts no more requests for now",
            None,
        ),
        _ => (Code::ApiServerError, "the server failed", None),
    };
    Meaning {
        code,
        sentence,
        help,
    }
}

/// What a 403 means: its body is exactly one of two texts, which a plugin's words could end in too.
pub(super) fn meaning_of_forbidden(text: &str, has_token: bool) -> Meaning {
    let (code, sentence) = if text.ends_with("ACL token not found") {
        (Code::ApiUnknownToken, "the server does not know the token")
    } else {
        (Code::ApiForbidden, "the token may not do this")
    };
    let help = (!has_token).then_some("No token was given: set NOMAD_TOKEN or --token.");
    Meaning {
        code,
        sentence,
        help,
    }
}

/// The lines of a text: go-multierror's frame and bullets taken off, nested ones too, words kept.
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

/// `unable to update volume: 2 errors occurred:` without its count.
fn without_count(line: &str) -> &str {
    let Some(rest) = line
        .strip_suffix(" error occurred:")
        .or_else(|| line.strip_suffix(" errors occurred:"))
    else {
        return line;
    };
    rest.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Without one `rpc error: ` per hop; gRPC's own `rpc error: code = …` stays.
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
