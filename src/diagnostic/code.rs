//! Every stable code: its word, its cause and its remedy.
//!
//! A code is `area/what`. Its meaning never changes; a code that is no longer produced stays
//! unused rather than being given another meaning. `explain CODE` prints what stands here.

macro_rules! codes {
    ($($variant:ident = $text:literal: $cause:literal, $remedy:literal;)*) => {
        /// The word that names a kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $cause] $variant,)*
        }

        impl Code {
            /// All codes, in the order of this file.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word itself: `spec/unknown-field`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Why this happens, in general.
            pub const fn cause(self) -> &'static str {
                match self { $(Self::$variant => $cause,)* }
            }

            /// What to do, in general.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

codes! {
    // --- plan: what will surprise, although it will be done
    PlanErasesSecrets = "plan/erases-secrets": "Nomad replaces a volume's stored secrets at every update, also by none, and never shows whether there are any.",
        "Give the secrets in the specification; if the volume has none, write `secrets {}`.";
    PlanIgnoredField = "plan/ignored-field": "The server takes the field and does nothing with it.",
        "Remove the change, or create the volume anew.";
    PlanDenied = "plan/denied": "A rule of the command line forbids what would be done.",
        "Change what is wanted, or leave out the `--deny` rule.";
    PlanHiddenValue = "plan/hidden-value": "An update would erase a value that the server has and does not show, and that the specification does not give.",
        "Give the value in the specification, say there that it shall be empty, or accept the loss with `--accept-loss`.";
    PlanUnknownVersion = "plan/unknown-version": "The server does not say its version to this token, and versions differ in what they refuse and lose.",
        "Use a token that may read agents, or say `--server-version`.";
    PlanUnseenField = "plan/unseen-field": "The server is so old that it does not show every field of a volume.",
        "Compare these fields yourself; later versions of Nomad show them.";
    PlanProtected = "plan/protected": "The volume is protected: a run that would remove it is refused.",
        "Apply it once with `protect = false`, or give it up with `forget`; then remove it.";
    PlanStillWanted = "plan/still-wanted": "A volume is to be removed, and a file still wants it.",
        "Decide: remove it from the files, or do not ask for its removal.";
    PlanOtherChanges = "plan/other-changes": "A file changes more of a volume than what was asked for.",
        "Apply the file, or leave the rest of it as the volume is.";
    PlanUnusable = "plan/unusable": "The file is no saved plan, or none that can be used here.",
        "Make a plan with `plan --out FILE`, look at it, and apply that.";
    PlanApplied = "plan/applied": "A saved plan is carried out once, and the set's ledger remembers that this one was.",
        "Make a new plan, look at it, and apply that.";
    PlanStale = "plan/stale": "Between the plan and its execution the volume was changed by somebody else, so it was left alone.",
        "Run the command again: it plans from what is there now.";

    DriftNoRecord = "drift/no-record": "What was last applied is not on record, so a difference between the server and the files cannot be told from drift.",
        "Name the set that the files are applied with, and the ledger that remembers it.";

    ImportTerraformState = "import/terraform-state": "The file is no state of Terraform that can be read, or a volume in it cannot be written down.",
        "Give it what `terraform state pull` prints; what is left out can be imported from the server by its ID.";

    // --- apply: what came of a change
    ApplyServerWarning = "apply/server-warning": "The server carried out the change and has something to say about it.",
        "Read the server's own words.";
    ApplyNotAsWritten = "apply/not-as-written": "The server accepted a change, and the volume is not as it was asked for.",
        "Look at the volume; the server may be too old for the field, or somebody changed it meanwhile.";
    ApplyHeldBack = "apply/held-back": "A volume was not begun, because another that comes first did not succeed.",
        "See what became of the other one, then run the command again.";
    ApplySnapshotNotReady = "apply/snapshot-not-ready": "A snapshot that was wanted first was cut, but the provider has not finished it in time.",
        "Run the command again: it asks for the same snapshot, and goes on when that is ready.";
    ApplySnapshotTaken = "apply/snapshot-taken": "A snapshot was taken of a volume that was to be replaced.",
        "A volume with this `snapshot_id` brings the data back; delete the snapshot when nobody needs it any more.";

    // --- the command line
    CliApprovalNeeded = "cli/approval-needed": "Somebody has to agree to the change, and nobody could be asked or nobody did.",
        "Run the command on a terminal, or with `--yes`.";
    CliInvalidValue = "cli/invalid-value": "A value on the command line or in the environment cannot be used.",
        "Change it as the message says.";
    CliAmbiguousId = "cli/ambiguous-id": "Several things match what was typed.",
        "Type the whole ID, and the namespace if the same ID is in several.";
    CliFileExists = "cli/file-exists": "The file that was to be written exists already.",
        "Name another file, or move that one away; nothing is overwritten.";
    CliFile = "cli/file": "A file could not be written.",
        "Check the path, its permissions, and the room on the disk.";
    CliOutputFailed = "cli/output-failed": "Not everything could be written to standard output, so what reads it got only a part.",
        "Check what standard output was redirected to: the disk may be full.";
    CliNamespaceConflict = "cli/namespace-conflict": "The command line names one namespace and a specification another.",
        "Leave out `--namespace`, or make the two agree.";
    CliContextConflict = "cli/context-conflict": "`--context` names one cluster and NOMAD_ADDR another.",
        "Unset NOMAD_ADDR, or leave out `--context`.";
    CliSetConflict = "cli/set-conflict": "The command line names one set and a specification another.",
        "Leave out `--set`, or make the two agree.";

    // --- config: the user's config file
    ConfigUnreadable = "config/unreadable": "The config file, or what `context use` wrote beside it, cannot be read.",
        "See to its permissions; it is `nomad-csi/config.toml` in the config home.";
    ConfigSyntax = "config/syntax": "The config file is not well-formed TOML.",
        "Correct the text at the position shown.";
    ConfigUnknownKey = "config/unknown-key": "The config file has a key that means nothing, so it would have had no effect.",
        "Correct the spelling or remove the key.";
    ConfigWrongType = "config/wrong-type": "A value in the config file is not of the kind that its key takes.",
        "Write a value of the kind named.";
    ConfigMissingAddress = "config/missing-address": "A context says no address, so it names no cluster.",
        "Add `address = \"https://HOST:4646\"`.";
    ConfigLiteralSecret = "config/literal-secret": "The config file holds a token or a password, and such files are copied, shown and kept in version control.",
        "Write where it is: `token = { env = \"NAME\" }` or `token = { file = \"PATH\" }`.";
    ConfigNoContext = "config/no-context": "The config file has no context of that name.",
        "Look at `nomad-csi context list`, or write one.";

    // --- spec: reading volume specifications
    SpecSyntax = "spec/syntax": "The file is not well-formed HCL, YAML or JSON.",
        "Correct the text at the position shown; everything before it was understood.";
    SpecUnknownField = "spec/unknown-field": "The specification has a key that no volume has, so it would have had no effect.",
        "Correct the spelling or remove the key.";
    SpecDuplicateField = "spec/duplicate-field": "A key stands twice in one place, and only one of the two could have an effect.",
        "Keep one of the two.";
    SpecWrongType = "spec/wrong-type": "A value has another type than its field.",
        "Write a value of the type named.";
    SpecMissingField = "spec/missing-field": "A field that a volume cannot do without is missing.",
        "Add the field.";
    SpecTooDeep = "spec/too-deep": "Blocks or lists lie in each other deeper than any specification needs.",
        "Flatten the file; nothing in a volume lies more than seven levels deep.";
    SpecTooManyAliases = "spec/too-many-aliases": "Aliases repeat so much that the file unfolds to far more than it holds.",
        "Write the values out, or split the file.";
    SpecNoVolume = "spec/no-volume": "No volume is declared: there is nothing, or comments only, or only the name of a set.",
        "Declare a volume; `volume init` writes an example. To let go of everything that a set owns there is `apply --prune`.";
    SpecMixedForms = "spec/mixed-forms": "A file is either one volume in Nomad's flat form or any number of `volume` blocks, and this is both.",
        "Move the fields into a `volume` block, or the block into a file of its own.";
    SpecVolumeType = "spec/volume-type": "The volume is not of type `csi`, and no other type has a plugin to ask.",
        "Write `type = \"csi\"`, or manage the volume with Nomad's own commands.";
    SpecUnexpectedLabel = "spec/unexpected-label": "A block has a label that it does not take; Nomad would silently drop the whole block.",
        "Remove the label.";
    SpecServerField = "spec/server-field": "The key is one that only a server sets; Nomad would store what the file says.",
        "Remove the key.";
    SpecNestedConfig = "spec/nested-config": "A nested `config` block is the form of a volume that Nomad gave up.",
        "Write the fields of `config` directly in the `volume` block.";
    SpecExpression = "spec/expression": "The file uses an expression where only a value that stands in the file is understood.",
        "Write the value itself; text needs double quotes.";
    SpecLiteralTemplate = "spec/literal-template": "A text holds `${` or `%{`, which Nomad's reader takes literally and HCL2 would evaluate.",
        "Write the value itself, or `\\u0024{` for a literal `${`.";
    SpecNumberAsText = "spec/number-as-text": "A number stands where a text is wanted, and Nomad's reader sends its value in another spelling.",
        "Write the text in quotes.";
    SpecBooleanAsText = "spec/boolean-as-text": "A boolean stands where a text is wanted, and Nomad's reader sends `1` or `0`.",
        "Write \"true\" in quotes if the word is meant, or \"1\".";
    SpecLenientJson = "spec/lenient-json": "The file is not quite JSON; Nomad's reader takes it, and other programs refuse it or read something else.",
        "Write it as JSON.";
    SpecInvalidSize = "spec/invalid-size": "A size is not one that Nomad and CSI can hold.",
        "Write digits and a unit, below 8 EiB: `10GiB`, `20G`, `1048576`.";
    SpecUnknownAccessMode = "spec/unknown-access-mode": "The access mode is none that CSI volumes have in Nomad, which would take it and fail when the volume is used.",
        "Use single-node-reader-only, single-node-writer, multi-node-reader-only, multi-node-single-writer or multi-node-multi-writer.";
    SpecUnknownAttachmentMode = "spec/unknown-attachment-mode": "The attachment mode is none that CSI knows; Nomad would take it and fail when the volume is used.",
        "Use file-system or block-device.";
    SpecEmptyTopology = "spec/empty-topology": "A topology names no segment; Nomad would drop it and make the volume just anywhere.",
        "Name at least one segment, or remove the topology.";
    SpecNoCapability = "spec/no-capability": "A volume without a capability cannot be used, and every server refuses it.",
        "Add a `capability` block with an `access_mode` and an `attachment_mode`.";
    SpecDuplicateCapability = "spec/duplicate-capability": "Two capabilities say the same.",
        "Remove one, or correct it.";
    SpecBlockMountOptions = "spec/block-mount-options": "Mount options are for file systems, and every capability of the volume is block-device.",
        "Remove the mount options, or add a capability with attachment mode file-system.";
    SpecReadOnly = "spec/read-only": "What `read_only` says and what the access modes allow cannot both be meant.",
        "Correct `read_only` or the access modes.";
    SpecMinAboveMax = "spec/min-above-max": "The smallest size that will do is larger than the largest.",
        "Correct one of the two sizes.";
    SpecTwoContentSources = "spec/two-content-sources": "A volume cannot be both restored from a snapshot and copied from a volume.",
        "Remove one of the two.";
    SpecVolumeId = "spec/volume-id": "The ID cannot be addressed over Nomad's HTTP API, or CSI has no room for it, so that the volume could never be read or deleted again.",
        "Choose an ID of up to 128 bytes without slashes and control characters.";
    SpecNamespace = "spec/namespace": "The name is none that a Nomad namespace can have.",
        "Use up to 128 letters, digits and hyphens.";
    SpecNameTooLong = "spec/name-too-long": "The name is longer than CSI allows, and plugins refuse it.",
        "Choose a name of up to 128 bytes.";
    SpecNameRequired = "spec/name-required": "Plugins know a new volume by its name.",
        "Add a `name`.";
    SpecContextOnCreate = "spec/context-on-create": "The provider gives a new volume its context; what the file says would reach the driver on the second run only.",
        "Remove the `context`, or add the `external_id` of the volume to register it.";
    SpecExternalIdOnCreate = "spec/external-id-on-create": "The provider gives a new volume its external ID and overwrites the one in the file.",
        "Remove the `external_id`, or register the volume instead of creating it.";
    SpecContentSourceOnRegister = "spec/content-source-on-register": "The volume exists already, so nothing is copied or restored; the ID is recorded and never used.",
        "Remove it, or remove the `external_id` to create the volume.";
    SpecRegisterWithoutExternalId = "spec/register-without-external-id": "Without an external ID the provider is asked for a volume that has the ID of this one.",
        "Add the provider's ID of the volume, unless the two IDs are the same.";
    SpecSecretReference = "spec/secret-reference": "A secret is neither a value nor a reference that can be followed.",
        "Write the value, `env(\"NAME\")` or `file(\"PATH\")`; in YAML and JSON `{env: NAME}` or `{file: PATH}`.";
    SpecSetName = "spec/set-name": "The name is none that a set can have: it is part of a path in the server's variables.",
        "Use 1 to 48 letters, digits, hyphens and underscores, the first a letter or a digit.";
    SpecTwoSets = "spec/two-sets": "All files of one run belong to one set, and these name two.",
        "Apply the sets one after the other, or make the names agree.";
    SpecDuplicateVolume = "spec/duplicate-volume": "Two specifications declare one volume, and the last one sent would win.",
        "Remove one, or give it another ID or namespace.";
    SpecNameTwice = "spec/name-twice": "On Nomad a provider knows a new volume by its name alone, so that two of one name become one volume.",
        "Give each volume a name of its own.";

    // --- secret: values that a specification only refers to
    SecretUnset = "secret/unset": "A secret refers to an environment variable that is not set.",
        "Set the variable, or correct its name where it is referred to.";
    SecretEmpty = "secret/empty": "A secret refers to a variable or a file that holds nothing: often a pipeline whose own secret is missing.",
        "Give it a value; if an empty secret is meant, write `\"\"` in the specification.";
    SecretNotText = "secret/not-text": "A secret refers to a variable or a file that is not text in UTF-8, and no other value can be sent.",
        "Encode the value as the provider documents it, often as base64.";
    SecretFile = "secret/file": "A secret refers to a file that cannot be read.",
        "Correct the path, which starts from the directory of the file that refers to it, or see to its permissions.";
    SecretTooLarge = "secret/too-large": "A secret refers to a file larger than 64 KiB, which no provider takes.",
        "Check that it is the right file.";
    SecretExposed = "secret/exposed": "A secret refers to a file that other users of this machine can read, or even write to.",
        "Take the permissions away: `chmod 600 FILE`.";

    // --- files: finding and reading specifications
    FilesNotFound = "files/not-found": "There is no file or directory of that name, or no file that matches the pattern.",
        "Correct the path; it is relative to the directory that the command runs in.";
    FilesUnreadable = "files/unreadable": "The file or directory exists and cannot be read.",
        "See to its permissions, then run the command again.";
    FilesTooLarge = "files/too-large": "The file is larger than 16 MiB, which no specification needs.",
        "Check that it is the right file, or split it.";
    FilesNotUtf8 = "files/not-utf8": "The file is not text in UTF-8.",
        "Save it as UTF-8.";
    FilesNoSpecs = "files/no-specs": "The directory holds no specification: no *.hcl, *.yaml, *.yml or *.json, those of Nomad jobs and plugins left out.",
        "Name the directory or the file that holds them.";
    FilesBadPattern = "files/bad-pattern": "The pattern is not one that can be matched.",
        "Correct its brackets, or name the files one by one.";

    // --- api: reaching a server, and being understood by it
    ApiAddress = "api/address": "The server's address is not one that can be used.",
        "Write `http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH`; Nomad's port is 4646 unless it was configured.";
    ApiTlsFiles = "api/tls-files": "A certificate or key that was named cannot be used.",
        "Name readable PEM files; a client certificate needs its unencrypted key, and the key its certificate.";
    ApiConnectionRefused = "api/connection-refused": "The host answers, but nothing listens at that port.",
        "Start Nomad or correct the address (`NOMAD_ADDR`, `--address`); `--embedded` works without a server.";
    ApiUnreachable = "api/unreachable": "No connection to the server's address can be made.",
        "Check the address, and the network and firewalls on the way.";
    ApiUnknownHost = "api/unknown-host": "The host in the server's address has no address of its own.",
        "Correct the address (`NOMAD_ADDR`, `--address`), or the name service of this machine.";
    ApiSocket = "api/socket": "The socket in the server's address cannot be opened.",
        "Check that the path exists, that a server listens there, and that you may write to it.";
    ApiTimeout = "api/timeout": "The server did not answer in time.",
        "Check the address, firewalls on the way, and whether the server is overloaded; a read may simply be repeated.";
    ApiTls = "api/tls": "No secure connection could be agreed with the server.",
        "Check `https` against `http`, the CA (`NOMAD_CACERT`), the name in the certificate (`NOMAD_TLS_SERVER_NAME`) and the client certificate.";
    ApiConnectionLost = "api/connection-lost": "The connection ended before the answer was complete.",
        "Run it again; nothing was changed by reading.";
    ApiOutcomeUnknown = "api/outcome-unknown": "A change was sent, and its answer never came: it may have been carried out or not.",
        "Look at the volume, then run the same command again if the change is missing; it is never repeated unasked.";
    ApiNotNomad = "api/not-nomad": "What answered does not speak Nomad's API.",
        "Check the address: it must be that of a Nomad server or agent, not of a web page or a proxy's login.";
    ApiTooLarge = "api/too-large": "An answer is larger than any that Nomad should give.",
        "Ask for less: a namespace or a prefix.";
    ApiForbidden = "api/forbidden": "The token may not do this; Nomad says the same of a token that it does not know.",
        "Use a token whose policy allows it: reading needs `csi-read-volume`, writing `csi-write-volume` and `plugin { policy = \"read\" }`.";
    ApiUnknownToken = "api/unknown-token": "The server does not know the token, or it has expired.",
        "Set `NOMAD_TOKEN` to the secret ID of a token of this region, or unset it if ACLs are off.";
    ApiRateLimited = "api/rate-limited": "The server accepts no more connections from this machine.",
        "Run less at once, or raise `limits.http_max_conns_per_client` in the agent's configuration.";
    ApiNoLeader = "api/no-leader": "The servers have no leader, so nothing can be read or written.",
        "Wait for the election to end; if it does not, too few servers are alive.";
    ApiUnknownRegion = "api/unknown-region": "No server of that region is known.",
        "Correct the region (`NOMAD_REGION`, `--region`), or leave it out for the server's own.";
    ApiBadRequest = "api/bad-request": "The server does not understand the request.",
        "Read the server's own words; if they make no sense, the server is of another version or no Nomad.";
    ApiServerError = "api/server-error": "The server failed, with words that are not known here.",
        "Read the server's own words and its log.";
    ApiUnsendable = "api/unsendable": "A value cannot be sent to the server without arriving changed.",
        "Change the value as the message says.";

    ApiAclDisabled = "api/acl-disabled": "The server asks nobody who he is, so it knows no tokens and no policies.",
        "Leave the token out; nothing needs one there.";
    ApiUnsupported = "api/unsupported": "The server is too old for what was asked of it.",
        "Upgrade the servers, or do without.";
    ApiListChanged = "api/list-changed": "A list changed so much while it was read that the rest could not be found.",
        "Run the command again.";
    AclMissingPermission = "acl/missing-permission": "The token's policies do not grant all that is needed, so the server would refuse it, perhaps in the middle.",
        "Give the token a policy with the rules shown; `nomad-csi auth check -f FILES` says what is missing.";
    AclPolicyNotFound = "acl/policy-not-found": "The server has no policy of that name.",
        "Look at the token's policies again: one may have been deleted just now.";

    // --- variable: what a server says of a variable
    VariableNotFound = "variable/not-found": "The server has no variable at that path in that namespace.",
        "Check the path and the namespace, and whether the token may read it.";
    VariableTooLarge = "variable/too-large": "The server takes only smaller variables.",
        "Upgrade the servers: Nomad 1.5 and later take 64 KiB.";
    VariableLockLost = "variable/lock-lost": "A variable's lock ran out or was taken away.",
        "Run the command again.";
    SnapshotNotFound = "snapshot/not-found": "The plugin's provider lists no snapshot of that ID.",
        "Check the ID and the plugin; `snapshot list --plugin PLUGIN` lists all.";
    SnapshotInUse = "snapshot/in-use": "The provider needs the snapshot for something else, such as a volume made from it.",
        "Delete what was made from it first.";

    // --- ledger: what a set owns, remembered
    SetNotFound = "set/not-found": "The ledger has no set of that name.",
        "Check the name, and which ledger is meant (`--ledger`, `--ledger-namespace`).";
    SetNotOwned = "set/not-owned": "The set does not own the volume.",
        "Check the ID, the namespace and the set.";
    SetOwnsRemoved = "set/owns-removed": "A set owns the volume that is removed by hand, and its next apply would make it anew.",
        "Take it out of the set's files, too, or `forget` it.";
    SetTwoOwners = "set/two-owners": "Another set of the same ledger owns the volume already.",
        "Let one of the two have it: `forget` it in the other, or take it out of the files.";
    LedgerConflict = "ledger/conflict": "Somebody else wrote the set's ledger since it was read, so nothing was written over it.",
        "Run the command again: it goes on from what is there now.";
    LedgerHeld = "ledger/held": "Two commands that change the same set take turns, and another one is at it.",
        "Wait until it ends. If it was killed, its turn ends by itself within a minute.";
    LedgerLockLost = "ledger/lock-lost": "The lock that keeps others from the same set ran out before the work was done: the server was away too long.",
        "See who works on the set now, and run the command again.";
    LedgerUnsupported = "ledger/unsupported": "Nomad has variables since 1.4 and locks on them since 1.7, and a ledger needs both.",
        "Keep the ledger in a file with `--ledger file:PATH`, or do without one with `--ledger none`.";
    LedgerUnusable = "ledger/unusable": "What stands in the ledger is not what this program writes, or a later version wrote it.",
        "Use the version that wrote it. If nobody can, remove it: nothing is owned then, and nothing unowned is ever removed.";
    LedgerFile = "ledger/file": "The file that holds the ledger cannot be used.",
        "Make sure that its directory exists, that it is yours, and that its disk has room.";
    LedgerUnfinished = "ledger/unfinished": "An earlier run began something with the volume and was cut short before it recorded how that ended.",
        "Nothing needs repair: what is there has been read. `apply` goes on from there.";

    // --- orphan: what a provider has and nobody registered
    OrphanRegistered = "orphan/registered": "The provider's volume is registered, so it is no orphan; or the name that it was to get is another volume's.",
        "Look at what is registered with `nomad-csi volume status`.";
    OrphanNotListed = "orphan/not-listed": "The provider's list has no volume of that external ID.",
        "Check the external ID and the plugin; `nomad-csi orphans --plugin PLUGIN` lists all orphans.";
    OrphanInUse = "orphan/in-use": "The provider says that the volume is published to a node, so somebody may use it, maybe of another cluster.",
        "Find out who uses it, and end that with the provider's own tools.";
    OrphanUnseenNamespaces = "orphan/unseen-namespaces": "The token may not list the volumes of all namespaces, so that nobody can say what is registered nowhere.",
        "Use a token that may list volumes in every namespace: `namespace \"*\" { capabilities = [\"csi-list-volume\"] }` and no rule that takes it away.";

    // --- volume: what a server says of a volume
    VolumeNotFound = "volume/not-found": "The server has no volume of that ID in that namespace.",
        "Check the ID and the namespace; `volume status --namespace '*'` lists all.";
    VolumeInUse = "volume/in-use": "Allocations claim the volume.",
        "Stop the jobs that use it, and wait until their allocations have ended.";
    VolumeNotAttached = "volume/not-attached": "The server knows of nothing that the volume left on that node.",
        "If the volume cannot be used all the same, look at its claims with `volume status`.";
    VolumeNotYet = "volume/not-yet": "The time to wait is over, and the volume is not as it was waited for.",
        "See to what the message names, or wait longer with `--timeout`.";
    VolumeImmutableField = "volume/immutable-field": "A field is to change that cannot change once the volume exists.",
        "Put the old value back, or make a new volume and move the data.";
    VolumeInvalid = "volume/invalid": "The server holds the volume to be invalid.",
        "Correct what its words name; `validate` finds most of it beforehand.";
    VolumeCapacity = "volume/capacity": "The sizes contradict each other or what the volume has: volumes never shrink.",
        "Let `capacity_max` be at least `capacity_min` and the size the volume has.";
    VolumeUnknownNamespace = "volume/unknown-namespace": "The namespace does not exist.",
        "Create it with `nomad namespace apply`, or correct the name.";
    VolumeUnaddressable = "volume/unaddressable": "Nomad's HTTP API cannot address a thing of that ID.",
        "Use an ID without `/` that is neither empty nor `.` nor `..`.";

    // --- plugin: what a server says of a plugin, or the plugin through it
    PluginNotFound = "plugin/not-found": "The server has no plugin of that ID.",
        "Check the ID with `plugin status`; a plugin exists once its job is registered.";
    PluginUnknown = "plugin/unknown": "No plugin of the ID that the volume names is known.",
        "Check `plugin_id` with `plugin status`, or start the plugin's job and wait until it is healthy.";
    PluginNoController = "plugin/no-controller": "The plugin has no controller, or its controller is not known yet.",
        "Start the plugin's controller and wait until it is healthy; a plugin without one can only have volumes registered.";
    PluginUnhealthy = "plugin/unhealthy": "The plugin needs its controller, and none is healthy.",
        "Look at `plugin status` and at the logs of the plugin's allocations.";
    PluginUnsupported = "plugin/unsupported": "The plugin does not do this.",
        "Do it with the provider's own tools, or use a plugin that can.";
    PluginUnreachable = "plugin/unreachable": "The server could not reach the node on which the plugin's controller runs.",
        "Check that the node is up and its agent connected, then run it again.";
    PluginExhausted = "plugin/exhausted": "The provider has no room for the volume where it is wanted.",
        "Free some, ask for less, or allow other topologies.";
    PluginConflict = "plugin/conflict": "The provider has a volume of that name with other properties.",
        "Choose another name, or ask for what the existing volume has.";
    PluginCapacity = "plugin/capacity": "The provider cannot make a volume of that size.",
        "Ask for a size that the provider offers; its documentation names the steps and the limits.";
    PluginSourceNotFound = "plugin/source-not-found": "The provider has no such snapshot or volume to copy from.",
        "Check `snapshot_id` or `clone_id`: it is the provider's ID.";
    PluginVolumeNotFound = "plugin/volume-not-found": "The provider has no volume of that external ID.",
        "Check `external_id` with the provider's own tools.";
    PluginCapability = "plugin/capability": "The provider cannot use the volume in the ways asked for.",
        "Ask for capabilities that the provider supports.";
    PluginInternal = "plugin/internal": "The plugin failed inside.",
        "Read the logs of the plugin's controller.";
    PluginRefused = "plugin/refused": "The plugin refused.",
        "Read the plugin's own words and the logs of its controller.";

    // --- server: what our agent says beyond Nomad
    VolumePending = "volume/pending": "The plugin was asked to create, expand or delete the volume, and what came of it is not known yet.",
        "Send the same request again: it goes on where the last one ended, and nothing is made or deleted twice.";
    VolumeBeingDeleted = "volume/being-deleted": "A deletion of the volume was begun and has not ended.",
        "Delete it again to finish; afterwards the ID is free.";
    VolumeShared = "volume/shared": "The provider's volume is registered more than once, and deleting it would take it from the others too.",
        "Deregister the others first, or deregister this one and keep the data.";
    SnapshotInvalid = "snapshot/invalid": "What stands in the request names no snapshot that can be.",
        "Give the snapshot a name of up to 128 bytes without control characters, or the provider's ID of one that exists.";
    SnapshotConflict = "snapshot/conflict": "The provider has a snapshot of that name, of another volume.",
        "Choose another name: a provider has one snapshot of each.";
    SnapshotPending = "snapshot/pending": "The plugin was asked to cut or delete the snapshot, and what came of it is not known.",
        "Send the same request again: of one name there is one snapshot, and what is gone is deleted.";
    VariableInvalid = "variable/invalid": "The variable cannot be written, or its lock not be held, as the request says.",
        "Change what the server's words name.";
    ServerBusy = "server/busy": "Too much is waiting for the same volume or plugin.",
        "Send the request again later; nothing was changed.";
    ServerStopping = "server/stopping": "The agent is stopping and begins nothing new.",
        "Send the request again when it runs again.";
    ServerSecrets = "server/secrets": "The secrets that are stored for the volume do not open with this agent's key.",
        "Put the agent's own key file back, or register the volume again with its secrets.";
    ServerUnknownPath = "server/unknown-path": "The server has nothing at that path, or not for that method.",
        "Check the path and the method; `/v1/volumes?type=csi` lists volumes.";

    // --- journal: what the agent remembers
    JournalDiskFull = "journal/disk-full": "There is no room left for the agent's journal, so it cannot promise to remember anything new; what was there is intact.",
        "Make room on the file system that holds the data directory; the agent goes on by itself, and what was refused may be sent again.";
    JournalUnavailable = "journal/unavailable": "The file that holds the agent's journal cannot be opened, read or written.",
        "Correct what the operating system says of the file, its directory or its disk, and start the agent again if it has ended.";
    JournalInUse = "journal/in-use": "Another process holds the agent's journal, and two writers would contradict each other.",
        "Stop the other process, or give this one a data directory of its own.";
    JournalDamaged = "journal/damaged": "What stands in the agent's journal was not written by this program, or has changed since it was written.",
        "Keep a copy of the data directory, and put back a backup of the whole directory, or start with an empty one and register the volumes again; their data is with the provider.";
    JournalTooNew = "journal/too-new": "The agent's journal was written by a later version of this program, and this one would misread it.",
        "Start the version that wrote it, or a later one.";

    // --- agent
    AgentNoMode = "agent/no-mode": "An agent has to be told in which mode it runs.",
        "Start it with --dev, the only mode there is: server and node in one process.";
    AgentBadAddress = "agent/bad-address": "The address to listen on is none.",
        "Write an IP address and a port: 127.0.0.1:4646 or [::1]:4646.";
    AgentNotLoopback = "agent/not-loopback": "Whoever reaches the agent's HTTP address may create and delete volumes: it asks nobody who they are.",
        "Listen on a loopback address, or allow it with --allow-unauthenticated on a network that you trust.";
    AgentPortInUse = "agent/port-in-use": "Another process listens on the address already.",
        "Stop that process, or choose another address with --http ADDR:PORT.";
    AgentCannotListen = "agent/cannot-listen": "The operating system does not let the agent listen there.",
        "Choose another address with --http ADDR:PORT, or another directory.";
    AgentDirectory = "agent/directory": "The agent cannot use a directory that it needs.",
        "Name a directory on a local disk that this user can write with --data-dir or --embedded=DIR.";
    AgentNoStateHome = "agent/no-state-home": "Neither XDG_STATE_HOME nor HOME says where the user's state is kept.",
        "Name a directory with --embedded=DIR.";
    AgentPluginNotHealthy = "agent/plugin-not-healthy": "The embedded plugin was started and did not become healthy.",
        "Read what it said last; with -vv the log has everything it writes.";
    // --- plugins reached over their socket
    PluginSocket = "plugin/socket": "No CSI plugin could be asked at the socket that was named.",
        "Give the plugin's own socket as unix:// and an absolute path, and start the plugin first.";

    HostpathCannotServe = "hostpath/cannot-serve": "The embedded plugin cannot serve as it was told to.",
        "Change the endpoint, the state directory or the node ID as the message says.";
    LogBadFilter = "log/bad-filter": "The text that says what is to be logged is no list of log directives.",
        "Correct NOMAD_CSI_LOG, or unset it.";

    // --- data: the agent's data directory
    DataInUse = "data/in-use": "Another agent holds the data directory, and only one may write there.",
        "Use the agent that holds it, stop it, or name another directory.";
    DataUnavailable = "data/unavailable": "The lock file in the data directory cannot be used.",
        "Make sure that the directory exists, that it is yours, and that its file system knows locks.";

    // --- key: the key that secrets are sealed with
    KeyMissing = "key/missing": "The data directory holds sealed secrets, and the key file that opens them is gone.",
        "Put the key file back from a backup; if there is none, start with an empty data directory and register the volumes and their secrets again.";
    KeyWrong = "key/wrong": "The key file does not open the secrets that are in the data directory.",
        "Put back the key file that belongs to this data directory.";
    KeyExposed = "key/exposed": "Others than its owner may read or write the key file, so it may not be secret any more.",
        "Give it mode 0600 with the command shown; if others had access, change the secrets themselves.";
    KeyMalformed = "key/malformed": "What stands in the key file is not a key that this program made.",
        "Put the key file back from a backup; do not edit it.";
    KeyUnavailable = "key/unavailable": "The key file cannot be read or made.",
        "Correct what the operating system says of the file or its directory.";

    // --- internal
    Internal = "internal": "The program contradicts itself: a defect of ours.",
        "Report it with the message and what was run; nothing was changed after it was found.";
}

impl Code {
    /// The code of that word, if there is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_texts_are_sentences() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert_eq!(
                Code::parse(code.as_str()),
                Some(*code),
                "{code} stands twice"
            );
            assert!(
                Code::ALL[..at]
                    .iter()
                    .all(|other| other.as_str() != code.as_str()),
                "{code}"
            );
            for sentence in [code.cause(), code.remedy()] {
                assert!(sentence.ends_with('.'), "{code}: {sentence}");
            }
        }
    }
}
