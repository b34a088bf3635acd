//! Stable codes: identifier, cause and remedy.
//!
//! A code is `area/what` and its meaning never changes. A code that is no longer produced is never
//! reused for another problem. `explain CODE` prints the texts of this file.

macro_rules! codes {
    ($($variant:ident = $text:literal: $cause:literal, $remedy:literal;)*) => {
        /// The stable identifier of a kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $cause] $variant,)*
        }

        impl Code {
            /// All codes, in the order of this file.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The identifier, such as `spec/unknown-field`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns what the code means and its usual cause.
            pub const fn cause(self) -> &'static str {
                match self { $(Self::$variant => $cause,)* }
            }

            /// Returns what to do about it.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

codes! {
    // --- plan: problems that are known before the change is made
    PlanErasesSecrets = "plan/erases-secrets": "Every update replaces the secrets that Nomad stores for the volume. An update without secrets erases them, and Nomad never shows whether any exist.",
        "Give the secrets in the specification; if the volume has none, write `secrets {}`.";
    PlanIgnoredField = "plan/ignored-field": "The server accepts a change of this field and ignores it.",
        "Remove the change, or recreate the volume.";
    PlanDenied = "plan/denied": "The command would make a change that a `--deny` rule or a policy forbids.",
        "Leave the change out, remove the `--deny` rule, or have the policy changed.";
    PlanHiddenValue = "plan/hidden-value": "The server stores a value that its API does not show. The specification does not give this value, so an update would erase it.",
        "Give the value in the specification, set it to empty there, or accept the loss with `--accept-loss`.";
    PlanUnknownVersion = "plan/unknown-version": "This token cannot read the server's version. Versions of Nomad differ in the changes they refuse and the values they lose.",
        "Use a token with `agent { policy = \"read\" }`, or give the version with `--server-version`.";
    PlanUnseenField = "plan/unseen-field": "This version of Nomad does not show every field of a volume, so the plan cannot compare those fields.",
        "Compare the fields yourself, or upgrade Nomad.";
    PlanProtected = "plan/protected": "The volume is protected, so commands that read the ledger refuse to remove it.",
        "Apply it with `protect = false` and then remove it, or stop managing it with `forget`.";
    PlanDataUnconfirmed = "plan/data-unconfirmed": "A set owns the volume, and its registration is gone from the server. It is not certain that its data still exists, so a new volume would be empty.",
        "Set the `external_id` of the data in the file, so that the volume is registered again; or approve an empty volume with `--approve destroys-data:ID`.";
    PlanRenamedInstance = "plan/renamed-instance": "A block with `count` or `for_each` declares a new volume, and the set owns a volume that looks like one of the same block under another key. A renamed key declares a new, empty volume.",
        "To keep the data, keep the ID with `source`, or register the data with `external_id`.";
    PlanDataChanged = "plan/data-changed": "A set owns the volume, and the volume has another external ID or plugin than the set recorded. The data under this name is not the data that the set knows.",
        "Find out who registered the other data; to accept it, run `forget` for the volume and apply again.";
    PlanDataGone = "plan/data-gone": "The volume is registered, but its provider no longer lists its data. Every use of the volume fails.",
        "Check the provider. Restore the data there, recreate the volume with `--replace`, or remove it. If the provider's list is not complete, use `--no-provider`.";
    PlanDataNotListed = "plan/data-not-listed": "A file registers an external ID that the provider does not list. The plugin may refuse the registration, or a task that mounts the volume.",
        "Correct the `external_id`: `nomad-csi orphans --plugin ID` lists the data that no volume has. If the provider's list is not complete, use `--no-provider`.";
    PlanSourceMissing = "plan/source-missing": "The volume is a copy, and its provider does not list the volume or the snapshot that it is copied from.",
        "Check `clone_id` or `snapshot_id`: both are the provider's IDs.";
    PlanDeclaredElsewhere = "plan/declared-elsewhere": "The set owns a volume that its files do not declare any more, and another directory of the command declares it. Removing and creating it again would leave it empty.",
        "Run `nomad-csi forget ID --set SET` with the set that owns it, and apply again: the data stays, and the other set owns the volume.";
    PlanSourceTooLarge = "plan/source-too-large": "The snapshot or the volume that a new volume is filled from is larger than the new volume may be. The plugin refuses the request.",
        "Raise or remove `capacity_max`.";
    PlanOfflineExpansion = "plan/offline-expansion": "The plugin expands a volume only while nothing uses it, and allocations use the volume. The plugin refuses the request.",
        "Stop the jobs that use the volume (`volume claims` lists them), apply, and run them again.";
    PlanProviderUnread = "plan/provider-unread": "The list of a provider could not be read, so it is unknown whether it still has the data of the volumes.",
        "Resolve the failure, or use `--no-provider` to leave the provider out.";
    PlanStillWanted = "plan/still-wanted": "The command would remove a volume that a specification file still declares.",
        "Remove the volume from the files, or do not remove it from the server.";
    PlanOtherChanges = "plan/other-changes": "The file changes more fields of the volume than this command may change.",
        "Run `apply` with the file, or undo the other changes in the file.";
    PlanLedger = "plan/ledger": "The saved plan was made with another ledger than the one that this command uses.",
        "If the plan's ledger is yours, name it with `--ledger`, as when the plan was made.";
    PlanUnusable = "plan/unusable": "The file is not a saved plan, is damaged, or was written by a later version of this program.",
        "Save a new plan with `plan --out FILE`, review it, and apply it.";
    PlanApplied = "plan/applied": "A saved plan can be applied only once. The ledger of the set records that this plan was already applied.",
        "Save a new plan, review it, and apply it.";
    PlanStale = "plan/stale": "The volume changed between planning and applying, so the command did not change it.",
        "Run the command again; it makes a new plan from the current state.";

    DriftFound = "drift/found": "A volume changed on the server since the last apply, or the volume or its data is gone.",
        "Run `plan` to see how the files would change it back, or change the files; `--ignore` leaves a field out.";
    DriftNoRecord = "drift/no-record": "The ledger has no record of the last apply, so drift cannot be separated from changes in the files.",
        "Give the set with `--set` and its ledger with `--ledger`.";

    ImportTerraformState = "import/terraform-state": "The file is not a readable Terraform state, or it contains a volume that cannot be written as a specification.",
        "Pass the output of `terraform state pull`; import the remaining volumes from the server by ID.";

    // --- apply: the result of a change
    ApplyServerWarning = "apply/server-warning": "The server made the change and returned a warning.",
        "Read the server's warning.";
    ApplyNotAsWritten = "apply/not-as-written": "The server accepted the change, but the volume does not match the specification.",
        "Compare the volume with the specification; the server may be too old for the field, or another client changed it.";
    ApplyHeldBack = "apply/held-back": "The change of this volume was not started, because a change that it depends on failed.",
        "Fix the failed change, then run the command again.";
    ApplyServerAway = "apply/server-away": "The server stopped responding in the middle of an apply and did not respond again in time.",
        "When the server responds, run the same command again; it starts from the current state and repeats nothing.";
    ApplySnapshotNotReady = "apply/snapshot-not-ready": "The snapshot before the replacement was created, but the provider did not finish it in time.",
        "Run the command again; it uses the same snapshot and continues when the snapshot is ready.";
    ApplySnapshotTaken = "apply/snapshot-taken": "A snapshot was created of a volume before the volume was replaced.",
        "To restore the data, create a volume with this `snapshot_id`; delete the snapshot when it is no longer needed.";

    // --- the command line
    CliApprovalNeeded = "cli/approval-needed": "The change requires approval. Either there is no terminal to ask on, or approval was refused.",
        "Run the command on a terminal, or approve with `--yes`.";
    CliSensitiveArgument = "cli/sensitive-argument": "The command line gives the value of a sensitive variable. Other users of the machine can read it there.",
        "Give the value in the environment variable NOMAD_CSI_VAR_NAME, or in a file with `--var-file`.";
    CliInvalidValue = "cli/invalid-value": "A value on the command line or in an environment variable is not valid.",
        "Correct the value as the message describes.";
    CliNoMatch = "cli/no-match": "The path of `-o jsonpath=` leads to nothing in the result.",
        "Look at the keys with `-o json`; a key is written as there, upper and lower case too.";
    CliAmbiguousId = "cli/ambiguous-id": "The prefix matches several objects.",
        "Give the full ID, and the namespace if several namespaces have that ID.";
    CliAbbreviatedId = "cli/abbreviated-id": "A command that changes something was given only the start of an ID.",
        "Give the full ID, or confirm the change on a terminal.";
    CliFileExists = "cli/file-exists": "The output file already exists, and this command does not overwrite files.",
        "Give another file name, or move the existing file.";
    CliFile = "cli/file": "A file cannot be written.",
        "Check the path, its permissions and the free space on the disk.";
    CliOutputFailed = "cli/output-failed": "Writing to standard output failed, so the output is incomplete.",
        "Check the target of the redirection; its disk may be full.";
    CliNamespaceConflict = "cli/namespace-conflict": "The command line and a specification give different namespaces.",
        "Remove `--namespace`, or use the same namespace in both.";
    CliContextConflict = "cli/context-conflict": "`--context` and NOMAD_ADDR select different clusters.",
        "Unset NOMAD_ADDR, or remove `--context`.";
    CliSetConflict = "cli/set-conflict": "The command line and a specification give different sets.",
        "Remove `--set`, or use the same set in both.";

    // --- config: the user's config file
    ConfigUnreadable = "config/unreadable": "The config file, or the file that `context use` writes beside it, cannot be read.",
        "Check the permissions of `nomad-csi/config.toml` in your config directory.";
    ConfigSyntax = "config/syntax": "The config file is not valid TOML.",
        "Correct the text at the marked position.";
    ConfigUnknownKey = "config/unknown-key": "The config file has an unknown key. It would have no effect.",
        "Correct the spelling, or remove the key.";
    ConfigWrongType = "config/wrong-type": "A value in the config file has the wrong type.",
        "Write a value of the type that the message names.";
    ConfigMissingAddress = "config/missing-address": "A context has no address, so it selects no cluster.",
        "Add `address = \"https://HOST:4646\"`.";
    ConfigLiteralSecret = "config/literal-secret": "The config file contains a token or a password in plain text. Config files are often copied and committed.",
        "Refer to the secret: `token = { env = \"NAME\" }` or `token = { file = \"PATH\" }`.";
    ConfigNoContext = "config/no-context": "The config file has no context of this name.",
        "List the contexts with `nomad-csi context list`, or add one to the config file.";

    // --- policy: what commands must not do

    PolicyUnreadable = "policy/unreadable": "A policy file that the command must obey cannot be read.",
        "Correct the path that the message names, or the permissions of the file.";
    PolicyInvalid = "policy/invalid": "A policy file is not valid TOML, or has a key or a value that no policy has. The command stops, because it does not know what is forbidden.",
        "Correct the text at the marked position; `docs/pipelines.md` lists the keys.";

    // --- spec: reading volume specifications
    SpecSyntax = "spec/syntax": "The file is not valid HCL, YAML or JSON.",
        "Correct the text at the marked position; the text before it is valid.";
    SpecOtherForm = "spec/other-form": "The file is written for another tool: it is a body of Nomad's HTTP API, a Terraform configuration, or a template that is not rendered.",
        "Write a specification, or import the volume that exists. Render a template first.";
    SpecUnknownField = "spec/unknown-field": "The specification has an unknown field. It would have no effect.",
        "Correct the spelling, or remove the field.";
    SpecDuplicateField = "spec/duplicate-field": "A field appears twice in the same block. Only one of the two values would have an effect.",
        "Keep one of the two.";
    SpecWrongType = "spec/wrong-type": "A value does not have the type of its field.",
        "Write a value of the type that the message names.";
    SpecMissingField = "spec/missing-field": "A required field is missing.",
        "Add the field.";
    SpecTooDeep = "spec/too-deep": "Blocks or lists are nested more deeply than any specification needs.",
        "Reduce the nesting; a volume needs at most seven levels.";
    SpecTooManyAliases = "spec/too-many-aliases": "YAML aliases expand the file to far more than its size.",
        "Write the values without aliases, or split the file.";
    SpecTooManyValues = "spec/too-many-values": "The file has more values and keys than this program reads from one file.",
        "Split the file: `-f` accepts several files and directories.";
    SpecTooManyVolumes = "spec/too-many-volumes": "The files declare more volumes than one command manages.",
        "Run one command per directory or per set.";
    SpecNoVolume = "spec/no-volume": "The specification declares no volume. It is empty, or contains only comments or the name of a set.",
        "Declare a volume; `volume init` writes an example. To remove every volume that a set owns, use `apply --prune`.";
    SpecMixedForms = "spec/mixed-forms": "The file mixes Nomad's flat form, which declares one volume, with `volume` blocks.",
        "Move the fields into a `volume` block, or move the block into its own file.";
    SpecUnsetVariable = "spec/unset-variable": "Something uses a variable that has neither a default nor a value.",
        "Give the value with `--var NAME=VALUE`, `--var-file FILE` or the environment variable NOMAD_CSI_VAR_NAME.";
    SpecUndeclaredVariable = "spec/undeclared-variable": "A value is given for a variable that no file of the command declares.",
        "Correct the name, or add the file that declares the variable to the command.";
    SpecVariableType = "spec/variable-type": "A variable has no valid type, or its value does not have the declared type.",
        "Give a value of the type in the `variable` block; a text is never converted to a number.";
    SpecVariableInvalid = "spec/variable-invalid": "The value of a variable does not satisfy a `validation` of its block.",
        "Give a value for which the condition holds.";
    SpecDeclarationCycle = "spec/declaration-cycle": "Local values depend on each other in a circle.",
        "Write one of them without the others.";
    SpecUnknownClass = "spec/unknown-class": "A volume takes a class that no file of the command declares.",
        "Correct the name, or add the file that declares the class to the command.";
    SpecNotInheritable = "spec/not-inheritable": "A class or `defaults` gives a key that belongs to one volume only, such as its ID.",
        "Move the key into the `volume` block.";
    SpecDuplicateDeclaration = "spec/duplicate-declaration": "Two blocks declare a variable, a local value or a class of the same name. Names are known in all files of a command.",
        "Rename or remove one of the two.";
    SpecInstances = "spec/instances": "`count`, `for_each` or `enabled` does not say which volumes there are.",
        "Give `count` a whole number, `for_each` a map or a list of distinct texts, and `enabled` a boolean.";
    SpecVolumeType = "spec/volume-type": "The volume does not have the type `csi`. Only CSI volumes have a plugin.",
        "Write `type = \"csi\"`, or manage the volume with the `nomad` command.";
    SpecHostVolume = "spec/host-volume": "A directory or a pattern has the file of a host volume. This program manages CSI volumes, and leaves the file alone.",
        "Use `nomad volume` for host volumes; to avoid the warning, name the other files or keep them in another directory.";
    SpecUnexpectedLabel = "spec/unexpected-label": "A block has a label that it does not accept. Nomad would ignore the whole block without a message.",
        "Remove the label.";
    SpecServerField = "spec/server-field": "Only a server sets this field. Nomad would store the value from the file instead.",
        "Remove the field.";
    SpecNestedConfig = "spec/nested-config": "The nested `config` block is an old form of volume specification that Nomad no longer supports.",
        "Write the fields of `config` directly in the `volume` block.";
    SpecExpression = "spec/expression": "The file contains an expression. Specifications support literal values only.",
        "Write the value itself; enclose text in double quotes.";
    SpecUnknownName = "spec/unknown-name": "An expression uses a name that does not exist, or that has no meaning where the expression is.",
        "Correct the name, declare it, or put text in double quotes.";
    SpecUnknownFunction = "spec/unknown-function": "An expression calls a function that does not exist.",
        "Correct the name; functions that return another value in every run do not exist.";
    SpecFunctionArguments = "spec/function-arguments": "A function has a wrong number of arguments, or an argument that it does not take.",
        "Write the arguments that the message names.";
    SpecNoSuchItem = "spec/no-such-item": "An expression takes an item that the list or the map does not have.",
        "Correct the index or the key, or use `lookup` with another value.";
    SpecArithmetic = "spec/arithmetic": "A calculation has no result: it divides by zero, or the result is too large.",
        "Correct the numbers; a condition can avoid the division.";
    SpecLateSecret = "spec/late-secret": "An expression uses the value of a secret reference. The secret is read only when the volume is sent.",
        "Use the reference as the whole value of a secret.";
    SpecEvaluationLimit = "spec/evaluation-limit": "The expressions take more steps, values or text than this program spends on one command.",
        "Make the lists and texts smaller, or nest fewer `for` expressions.";
    SpecSensitiveValue = "spec/sensitive-value": "A sensitive value is used where plans, reports or IDs would show it.",
        "Use it in `secrets` or `mount_flags` only, or declare the variable without `sensitive`.";
    SpecLiteralTemplate = "spec/literal-template": "A string contains `${` or `%{`. Nomad's parser keeps it literally; HCL2 would evaluate it.",
        "Write the value itself, or `\\u0024{` for a literal `${`.";
    SpecNumberAsText = "spec/number-as-text": "The field requires a string, and the file has a number. Nomad's parser would write the number differently.",
        "Enclose the value in quotes.";
    SpecBooleanAsText = "spec/boolean-as-text": "The field requires a string, and the file has a boolean. Nomad's parser would send `1` or `0`.",
        "Write \"true\" in quotes to send the word, or \"1\".";
    SpecLenientJson = "spec/lenient-json": "The file is not strict JSON. Nomad's parser accepts it; other programs refuse it or read other values.",
        "Write valid JSON.";
    SpecInvalidSize = "spec/invalid-size": "The size is malformed, or too large for Nomad and CSI.",
        "Write digits and a unit, below 8 EiB: `10GiB`, `20G`, `1048576`.";
    SpecUnknownAccessMode = "spec/unknown-access-mode": "Nomad has no such access mode for CSI volumes. It would accept the volume and fail when an allocation uses it.",
        "Use single-node-reader-only, single-node-writer, multi-node-reader-only, multi-node-single-writer or multi-node-multi-writer.";
    SpecUnknownAttachmentMode = "spec/unknown-attachment-mode": "CSI has no such attachment mode. Nomad would accept the volume and fail when an allocation uses it.",
        "Use file-system or block-device.";
    SpecEmptyTopology = "spec/empty-topology": "A topology has no segments. Nomad would ignore it, and the provider could create the volume anywhere.",
        "Add at least one segment, or remove the topology.";
    SpecNoCapability = "spec/no-capability": "The volume has no capability. Every server refuses such a volume, because no allocation can use it.",
        "Add a `capability` block with an `access_mode` and an `attachment_mode`.";
    SpecDuplicateCapability = "spec/duplicate-capability": "Two capabilities are the same.",
        "Remove or correct one of them.";
    SpecBlockMountOptions = "spec/block-mount-options": "The volume has mount options, but every capability is block-device. Mount options apply to file systems only.",
        "Remove the mount options, or add a capability with attachment mode file-system.";
    SpecReadOnly = "spec/read-only": "`read_only` contradicts the access modes of the volume.",
        "Correct `read_only` or the access modes.";
    SpecMinAboveMax = "spec/min-above-max": "The minimum size is larger than the maximum size.",
        "Correct one of the two sizes.";
    SpecTwoContentSources = "spec/two-content-sources": "The specification gives both a snapshot to restore and a volume to clone.",
        "Remove one of the two.";
    SpecVolumeId = "spec/volume-id": "Nomad's HTTP API cannot address this ID, it is too long for CSI, or it contains characters that terminals do not show. Such a volume could never be read or deleted, or could be taken for another one.",
        "Choose an ID of up to 128 bytes without slashes and control characters.";
    SpecNamespace = "spec/namespace": "The name is not a valid Nomad namespace.",
        "Use up to 128 letters, digits and hyphens.";
    SpecNameTooLong = "spec/name-too-long": "The name is longer than CSI allows, so plugins refuse it.",
        "Choose a name of up to 128 bytes.";
    SpecNameRequired = "spec/name-required": "A new volume needs a name, because plugins identify it by its name.",
        "Add a `name`.";
    SpecContextOnCreate = "spec/context-on-create": "The provider sets the context of a new volume. The context from the file would first reach the plugin on a later update.",
        "Remove the `context`, or add the `external_id` of an existing volume to register it.";
    SpecExternalIdOnCreate = "spec/external-id-on-create": "The provider chooses the external ID of a new volume and replaces the ID in the file.",
        "Remove the `external_id`, or register the volume instead of creating it.";
    SpecContentSourceOnRegister = "spec/content-source-on-register": "A registered volume already exists, so nothing is cloned or restored. The server stores the ID and never uses it.",
        "Remove the field, or remove the `external_id` to create the volume.";
    SpecRegisterWithoutExternalId = "spec/register-without-external-id": "The specification has no external ID. The server then uses the volume ID to find the volume at the provider.",
        "Add the `external_id`, unless both IDs are the same.";
    SpecSecretReference = "spec/secret-reference": "A secret is neither a string nor a valid reference.",
        "Write the value, `env(\"NAME\")`, `file(\"PATH\")` or `nomad_var(\"PATH\", \"KEY\")`; in YAML and JSON `{env: NAME}`, `{file: PATH}` or `{nomad_var: [PATH, KEY]}`.";
    SpecLiteralSecret = "spec/literal-secret": "The specification contains the value of a secret. Everyone who can read the file or its history knows the secret.",
        "Refer to the secret with `env(\"NAME\")`, `file(\"PATH\")` or `nomad_var(\"PATH\", \"KEY\")`. `--deny literal-secrets` refuses literal secrets.";
    SpecSetName = "spec/set-name": "The name of the set is not valid. It is part of the path of a Nomad variable.",
        "Use 1 to 48 letters, digits, hyphens and underscores; start with a letter or a digit.";
    SpecTwoSets = "spec/two-sets": "The files name two sets. A run changes one set; `validate`, `plan` and `apply` make one run of each directory with a set.",
        "Apply each set separately, or use one name in all files.";
    SpecSetTwice = "spec/set-twice": "Several directories with a set are several runs of the command, and two of them name the same set. With `--prune`, each run would remove the volumes of the other.",
        "Name the set in one directory above both, or give each directory a set of its own.";
    SpecDuplicateVolume = "spec/duplicate-volume": "Two specifications declare the same volume. The last one sent would overwrite the other.",
        "Remove one, or give it another ID or namespace.";
    SpecNameTwice = "spec/name-twice": "Two specifications have the same volume name. Plugins identify new volumes by name, so both would become one volume.",
        "Give each volume its own name.";

    // --- job: reading job files
    JobNone = "job/none": "The file contains no job.",
        "Write a `job \"NAME\" { … }` block.";
    JobSeveral = "job/several": "The file contains several jobs, and a server takes one at a time.",
        "Write each job into a file of its own.";
    JobIgnored = "job/ignored": "The job uses parts of Nomad's job specification that do not concern volumes. The agent of this program does not carry them out; a Nomad cluster does.",
        "Remove them if the job runs on this program's agent only.";
    JobNotSupported = "job/not-supported": "The job uses a part of Nomad's job specification that decides whether, when, where or how often a task runs, or which values it gets. This program does not carry it out. Without it, the job could do something else to its volumes.",
        "Remove this part, or run the file with `nomad job run` on a Nomad cluster.";
    JobExpression = "job/expression": "The job file contains an expression that Nomad evaluates when it reads the file: a variable, a local value, a function, an operator or a `dynamic` block. This program evaluates none.",
        "Write the value itself. References that are replaced when a task starts, such as `${NOMAD_ALLOC_INDEX}`, are allowed.";
    JobUnknownWord = "job/unknown-word": "A field has a word that Nomad does not know. Nomad accepts some of them and ignores the block, or fails when the job runs.",
        "Use one of the words that the message lists.";
    JobInvalidValue = "job/invalid-value": "A value of the job is outside of its range, or malformed.",
        "Correct the value as the message describes.";
    JobName = "job/name": "A job, a group, a task or a volume has no name, or a name that Nomad refuses.",
        "Correct the name as the message describes.";
    JobDuplicate = "job/duplicate": "Two groups, tasks or volumes have the same name. Nomad refuses the first two, and silently drops one of two volumes.",
        "Give each its own name.";
    JobIncomplete = "job/incomplete": "A job has no group, a group has no task, or a task has no driver.",
        "Add what the message names.";
    JobVolumeSource = "job/volume-source": "A volume of a group has no source, so it is unknown which volume is meant.",
        "Set `source` to the ID of the CSI volume or the name of the host volume.";
    JobVolumeMode = "job/volume-mode": "A volume of a group has no access mode or attachment mode, or one that does not fit its other fields.",
        "Set `access_mode` and `attachment_mode` of every CSI volume; a read-only mode requires `read_only = true`.";
    JobVolumeOptions = "job/volume-options": "The volume cannot have mount options: it is a block device or a host volume.",
        "Remove `mount_options`.";
    JobPerAlloc = "job/per-alloc": "`per_alloc` gives each allocation the volume with its index. System jobs and canaries have no such index, and a sticky volume has its own rule.",
        "Remove `per_alloc`, or the canaries or `sticky`.";
    JobTooManyUsers = "job/too-many-users": "More allocations of the group would use the volume than its access mode allows, so some of them could never start.",
        "Set `count = 1`, use `per_alloc` with one volume per allocation, or choose another access mode.";
    JobVolumeMissing = "job/volume-missing": "A job uses a volume that does not exist in its namespace, so its allocations would never be placed.",
        "Declare the volume, or correct `source` or the namespace of the job.";
    JobVolumeIndex = "job/volume-index": "`per_alloc` gives each allocation the volume with its index, and not all of these volumes exist.",
        "Declare one volume for each allocation, such as with `count` in the block of the volume.";
    JobVolumeSuffix = "job/volume-suffix": "The job uses a volume with an index, and only one without an index exists, or the other way round.",
        "Set or remove `per_alloc`, or declare the volumes with or without `count`.";
    JobVolumeCapability = "job/volume-capability": "The volume does not have the access mode and attachment mode that the job asks for.",
        "Use modes that the volume has, or add a `capability` to the volume.";
    JobVolumeReadOnly = "job/volume-read-only": "The job writes to a volume that can only be read.",
        "Set `read_only = true` in the job, or give the volume an access mode that writes.";
    JobVolumeTopology = "job/volume-topology": "No node of the plugin has a topology from which the volume is accessible, so no node can run the job.",
        "Run the plugin on a node with a topology of the volume, or create the volume where nodes are.";
    JobVolumeLimit = "job/volume-limit": "The jobs use more volumes of a plugin than all of its nodes together can have.",
        "Run the plugin on more nodes, or use fewer volumes.";
    JobVolumeMount = "job/volume-mount": "A `volume_mount` names no volume of its group, has no destination, or shares its destination with another.",
        "Declare the volume in the group, and give each mount its own destination.";
    JobHidden = "job/hidden": "The job was read from an agent, which shows `[REDACTED]` instead of environments, `meta`, driver configurations and mount flags. It would run without them.",
        "Submit the file from which the job was made.";
    JobCsiPlugin = "job/csi-plugin": "The configuration of a plugin task is not complete, or does not fit its group.",
        "Correct the `csi_plugin` block as the message describes.";
    JobDriver = "job/driver": "The driver of a task cannot do what the task asks for: mount volumes, or run a plugin.",
        "Use a driver that can, such as `exec` or `docker`.";
    JobRootTask = "job/root-task": "A task of `exec` names root as its user, which the agent does not allow.",
        "Remove `user` or name another one, or start the agent with `--allow-root-tasks`.";
    JobRestart = "job/restart": "The restart policy contradicts itself.",
        "Correct `attempts`, `interval`, `delay` and `mode` as the message describes.";
    JobConstraint = "job/constraint": "A constraint has no attribute or value that its operator requires, or a malformed one.",
        "Correct the constraint as the message describes.";

    // --- secret: values that a specification refers to
    SecretUnset = "secret/unset": "A secret refers to an environment variable that is not set.",
        "Set the variable, or correct its name in the file.";
    SecretEmpty = "secret/empty": "A secret refers to an empty variable or file. Often a CI pipeline lacks its own secret.",
        "Give the variable or file a value; to send an empty secret, write `\"\"` in the specification.";
    SecretNotText = "secret/not-text": "A secret refers to a variable or a file that is not UTF-8 text. Only text can be sent.",
        "Encode the value as the provider documents, often as base64.";
    SecretFile = "secret/file": "A secret refers to a file that cannot be read.",
        "Correct the path or its permissions; a relative path starts at the directory of the specification.";
    SecretTooLarge = "secret/too-large": "A secret refers to a file larger than 64 KiB. No provider accepts such a secret.",
        "Check the path of the file.";
    SecretExposed = "secret/exposed": "A secret refers to a file that other users of this machine can read or write.",
        "Remove their permissions: `chmod 600 FILE`.";

    // --- files: finding and reading specifications
    FilesNotFound = "files/not-found": "The file or directory does not exist, or no file matches the pattern.",
        "Correct the path; relative paths start at the working directory.";
    FilesUnreadable = "files/unreadable": "The file or directory exists but cannot be read.",
        "Correct its permissions, then run the command again.";
    FilesTooLarge = "files/too-large": "The file is larger than 16 MiB, the limit for a specification, than 4 MiB, the limit for a job file, or than 1 MiB, the limit for a file of variables. There are at most 16 of those.",
        "Check the path, or split the file.";
    FilesForeignLink = "files/foreign-link": "The file is a link to a file outside its directory, so its content is not shown in messages.",
        "Run the command with the file that the link leads to, or replace the link by a copy.";
    FilesTimedOut = "files/timed-out": "A pipe or a device did not deliver its content in time.",
        "Check the process that writes to it, or write its output to a file first.";
    FilesNotUtf8 = "files/not-utf8": "The file is not UTF-8 text.",
        "Save the file as UTF-8.";
    FilesNoSpecs = "files/no-specs": "The directory contains no specification in a *.hcl, *.yaml, *.yml or *.json file. Nomad jobs and plugin files do not count.",
        "Give the directory or the file that contains the specifications.";
    FilesBadPattern = "files/bad-pattern": "The pattern is not valid.",
        "Correct its brackets, or list the files.";

    // --- api: connections to a server and its general answers
    ApiAddress = "api/address": "The address of the server is not valid.",
        "Write `http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH`; Nomad's default port is 4646.";
    ApiTlsFiles = "api/tls-files": "A certificate file or a key file cannot be used.",
        "Give readable PEM files; a client certificate requires its unencrypted key, and a key requires its certificate.";
    ApiConnectionRefused = "api/connection-refused": "The host is reachable, but nothing listens on the port.",
        "Start Nomad, or correct the address (`NOMAD_ADDR`, `--address`); `--embedded` works without a server.";
    ApiUnreachable = "api/unreachable": "The server's address cannot be reached.",
        "Check the address, the network and firewalls.";
    ApiUnknownHost = "api/unknown-host": "The host name in the server's address cannot be resolved.",
        "Correct the address (`NOMAD_ADDR`, `--address`), or the DNS settings of this machine.";
    ApiSocket = "api/socket": "The socket in the server's address cannot be opened.",
        "Check that the path exists, that a server listens on it, and that you may write to it.";
    ApiTimeout = "api/timeout": "The server did not answer in time.",
        "Check the address, firewalls and the server's load; repeating a read is safe.";
    ApiTls = "api/tls": "The TLS handshake with the server failed.",
        "Check `https` against `http`, the CA (`NOMAD_CACERT`), the name in the certificate (`NOMAD_TLS_SERVER_NAME`) and the client certificate.";
    ApiConnectionLost = "api/connection-lost": "The connection closed before the answer was complete.",
        "Run the command again; the read changed nothing.";
    ApiOutcomeUnknown = "api/outcome-unknown": "A change was sent, but no answer arrived. The server may have made the change.",
        "Check the volume, and run the same command again if the change is missing; changes are never repeated automatically.";
    ApiNotNomad = "api/not-nomad": "The answer does not come from Nomad's API.",
        "Check the address; it must be that of a Nomad agent, not of a web page or a proxy's login page.";
    ApiTooLarge = "api/too-large": "The answer is larger than the limit for an answer from Nomad.",
        "Limit the request to a namespace or a prefix.";
    ApiForbidden = "api/forbidden": "The token does not have the required permission. Nomad returns the same error for an unknown token.",
        "Use a token with the permission: `csi-read-volume` to read, `csi-write-volume` and `plugin { policy = \"read\" }` to write.";
    ApiUnknownToken = "api/unknown-token": "The server does not know the token, or the token has expired.",
        "Set `NOMAD_TOKEN` to the secret ID of a token of this region, or unset it if ACLs are off.";
    ApiRateLimited = "api/rate-limited": "The server accepts no more connections from this machine.",
        "Run fewer commands in parallel, or raise `limits.http_max_conns_per_client` in the agent's configuration.";
    ApiNoLeader = "api/no-leader": "The cluster has no leader, so it can neither read nor write.",
        "Wait for the election; if the cluster elects no leader, start more of its servers.";
    ApiUnknownRegion = "api/unknown-region": "The server knows no region of this name.",
        "Correct the region (`NOMAD_REGION`, `--region`), or omit it to use the server's own.";
    ApiForeignRequest = "api/foreign-request": "The agent refused a request that a web page could have made a browser send.",
        "Use an address of the agent or `localhost`, send JSON, or allow the name with `--allow-host`.";
    ApiOperatorOnly = "api/operator-only": "Only the operator of the agent may change something, run jobs, or read variables and the output of tasks.",
        "Set `NOMAD_TOKEN` to the content of `operator.token` in the agent's data directory, or `NOMAD_ADDR` to `unix://` and the agent's socket.";
    ApiBadRequest = "api/bad-request": "The server rejected the request as malformed.",
        "Read the server's error; if it is unclear, check the version of the server and its address.";
    ApiServerError = "api/server-error": "The server failed with an error that this program does not know.",
        "Read the server's error and its log.";
    ApiUnsendable = "api/unsendable": "The server's API cannot carry this value unchanged.",
        "Correct the value as the message describes.";

    ApiAclDisabled = "api/acl-disabled": "ACLs are off on this server, so it has no tokens and no policies.",
        "Omit the token; this server does not need one.";
    ApiUnsupported = "api/unsupported": "The server is too old for this request.",
        "Upgrade the servers, or do not use this feature.";
    ApiListChanged = "api/list-changed": "The list changed while it was read, so the remaining pages could not be read.",
        "Run the command again.";
    AclMissingPermission = "acl/missing-permission": "The token's policies lack a required permission. The server would refuse the command, possibly after some of the changes.",
        "Add the rules shown to a policy of the token; `nomad-csi auth check -f FILES` lists the missing permissions.";
    AclPolicyNotFound = "acl/policy-not-found": "The server has no policy of this name.",
        "Check the token's policies; one of them may have been deleted.";
    AclTokenNotFound = "acl/token-not-found": "The server has no token with this accessor ID.",
        "List the tokens with `nomad-csi acl token list`.";

    // --- variable: answers about a Nomad variable or a snapshot
    VariableNotFound = "variable/not-found": "The namespace has no variable at this path.",
        "Check the path, the namespace and the token's permission to read it.";
    VariableTooLarge = "variable/too-large": "The variable is larger than the server allows.",
        "Upgrade the servers; Nomad 1.5 and later accept 64 KiB.";
    VariableLockLost = "variable/lock-lost": "The lock of the variable expired or was taken by another client.",
        "Run the command again.";
    SnapshotNotFound = "snapshot/not-found": "The plugin's provider lists no snapshot of this ID.",
        "Check the ID and the plugin; `snapshot list --plugin PLUGIN` lists all snapshots.";
    SnapshotInUse = "snapshot/in-use": "The provider still needs the snapshot, for example for a volume created from it.",
        "Delete the volumes created from the snapshot first.";

    // --- ledger: the record of what sets own
    SetNotFound = "set/not-found": "The ledger has no set of this name.",
        "Check the name and the ledger (`--ledger`, `--ledger-namespace`).";
    SetNotOwned = "set/not-owned": "The set does not own the volume.",
        "Check the ID, the namespace and the set.";
    SetOwnsChanged = "set/owns-changed": "A set owns the volume, and the command changes it without the set. The set does not record the change, so it is drift.",
        "Change the volume with its set, or remove it from the set with `forget`.";
    SetOwnsRemoved = "set/owns-removed": "A set owns the volume that the command removes. The next apply of the set would create the volume again.",
        "Remove the volume from the set's files too, or run `forget` for it.";
    SetTwoOwners = "set/two-owners": "Another set of the same ledger already owns the volume.",
        "Run `forget` for the volume in the other set, or remove it from the files.";
    LedgerConflict = "ledger/conflict": "Another command changed the ledger of the set after this command read it. Nothing was overwritten.",
        "Run the command again; it continues from the current state.";
    LedgerHeld = "ledger/held": "Another command holds the lock of the set. Only one command can change a set at a time.",
        "Wait until the other command ends; if it was killed, its lock expires within a minute.";
    LedgerLockLost = "ledger/lock-lost": "The lock of the set expired before the command finished, because the server was unreachable for too long.",
        "Check that no other command changes the set, then run the command again.";
    LedgerUnsupported = "ledger/unsupported": "The server cannot store a ledger. A ledger needs variables (Nomad 1.4) and variable locks (Nomad 1.7).",
        "Keep the ledger in a file with `--ledger file:PATH`, or use no ledger with `--ledger none`.";
    LedgerUnusable = "ledger/unusable": "The ledger is damaged, or a later version of this program wrote it.",
        "Use the version that wrote it. As a last resort remove the ledger: the set then owns nothing, and volumes without an owner are never removed.";
    LedgerFile = "ledger/file": "The ledger file cannot be used.",
        "Check that its directory exists, that you own it, and that its disk has free space.";
    LedgerInterrupted = "ledger/interrupted": "An earlier command was interrupted while it changed the volume, before it recorded the result.",
        "No repair is needed: a plan uses the current state of the volume, and the next apply records it. Repeat a removal that is still wanted.";

    // --- orphan: volumes of a provider that no server has registered
    OrphanRegistered = "orphan/registered": "The provider's volume is registered, so it is not an orphan; or another volume has the requested ID.",
        "List the registered volumes with `nomad-csi volume status`.";
    OrphanNotListed = "orphan/not-listed": "The provider lists no volume of this external ID.",
        "Check the external ID and the plugin; `nomad-csi orphans --plugin PLUGIN` lists all orphans.";
    OrphanInUse = "orphan/in-use": "The provider reports that the volume is published to a node. Another cluster may use it.",
        "Find the user of the volume, and unpublish it with the provider's own tools.";
    OrphanUnseenNamespaces = "orphan/unseen-namespaces": "The token is not known to list the volumes of all namespaces, so unregistered volumes cannot be found reliably.",
        "Use a token with `namespace \"*\" { capabilities = [\"csi-list-volume\"] }` and without a rule that denies it.";

    // --- job and alloc: answers about jobs and allocations
    JobRefused = "job/refused": "The job on the server does not take the request: it starts only on request or only by itself, or the request lacks what the job requires.",
        "Show what the job requires with `job status ID`.";
    JobInvalid = "job/invalid": "The server does not accept the job.",
        "Check the job file with `job validate`.";
    JobNotFound = "job/not-found": "The server has no job of this ID in this namespace.",
        "List the jobs with `job status`.";
    AllocNotFound = "alloc/not-found": "The server has no allocation or evaluation of this ID. It removes those that have ended after some time.",
        "List the allocations of a job with `job status ID`.";
    JobConflict = "job/conflict": "The job on the server is not the one that was planned: its index differs.",
        "Plan the job again, and use the index of the new plan.";
    JobLosesParts = "job/loses-parts": "The job file has parts that this program does not read, such as `network` or `template`. A Nomad cluster would run the job without them.",
        "Run the file with `nomad job run`.";
    JobNeedsAgent = "job/needs-agent": "A job outlives the command that starts it, and the embedded agent ends with its command.",
        "Start `nomad-csi agent`, and run the job there.";
    JobNotPlaced = "job/not-placed": "No node can take some allocations of the job. The server tries again when something changes.",
        "Resolve a reason that the message names, or stop the job.";
    JobNotRunning = "job/not-running": "The job is registered, and some of its allocations failed or did not start in time.",
        "Run `alloc status` and `alloc logs` to see why.";
    AllocTask = "alloc/task": "The allocation has no such task, the task does not run, or there are several and the command needs the name of one.",
        "Name one of the tasks that the message lists.";
    // --- claim: answers about claims of a volume, and node: about nodes
    ClaimDenied = "claim/denied": "The volume cannot be claimed now.",
        "Wait until the allocations that the message names have released the volume.";
    ClaimFailed = "claim/failed": "The plugin can never publish the volume for this claim.",
        "Correct what the plugin's error names, then claim the volume again.";
    ClaimNotFound = "claim/not-found": "The allocation has no claim of the volume.",
        "List the claims with `volume claims`.";
    ClaimInvalid = "claim/invalid": "The request for a claim contradicts itself or the allocation.",
        "Correct the field that the message names.";
    NodeUnreachable = "node/unreachable": "The server has no connection to the node.",
        "Check that `nomad-csi agent node` runs there, and its log.";
    NodeUnknown = "node/unknown": "The server has no node of this ID.",
        "Check the ID of the node.";
    NodeState = "node/state": "The node is lost already, or is not lost.",
        "Check the claims on the node with `volume claims`.";
    // --- volume: answers about a volume
    VolumeNotFound = "volume/not-found": "The namespace has no volume of this ID.",
        "Check the ID and the namespace; `volume status --namespace '*'` lists all volumes.";
    VolumeInUse = "volume/in-use": "Allocations claim the volume.",
        "Stop the jobs that use it, and wait until their allocations have stopped.";
    VolumeNotAttached = "volume/not-attached": "The server has no claims of the volume on this node.",
        "If the volume is still unusable, check its claims with `volume status`.";
    VolumeNotYet = "volume/not-yet": "The volume did not reach the expected state before the timeout.",
        "Fix the cause that the message names, or wait longer with `nomad-csi volume wait ID --timeout 30m`.";
    VolumeImmutableField = "volume/immutable-field": "The specification changes a field that cannot change after the volume is created.",
        "Restore the old value, or create a new volume and move the data.";
    VolumeInvalid = "volume/invalid": "The server rejected the volume as invalid.",
        "Correct what the server's error names; `validate` finds most errors before a request is sent.";
    VolumeCapacity = "volume/capacity": "The sizes contradict each other or the current size of the volume. Volumes cannot shrink.",
        "Set `capacity_max` to at least `capacity_min` and the current size of the volume.";
    VolumeUnknownNamespace = "volume/unknown-namespace": "The namespace does not exist.",
        "Create it with `nomad-csi namespace create NAME`, or correct the name.";
    VolumeUnaddressable = "volume/unaddressable": "Nomad's HTTP API cannot address an object with this ID.",
        "Use an ID that is not empty, `.` or `..`, and has no `/`; that of a job may have `/`, but not end like `/plan`.";

    // --- namespace
    NamespaceUnknown = "namespace/unknown": "The server has no namespace of this name.",
        "List the namespaces with `namespace list`, and correct the name.";
    NamespaceInUse = "namespace/in-use": "The namespace cannot be deleted: something is in it.",
        "Delete the volumes and variables in it, and purge its jobs; `nomad-csi job stop --purge ID` purges one.";

    // --- plugin: answers about a plugin, and the plugin's own answers
    PluginNotFound = "plugin/not-found": "The server has no plugin of this ID.",
        "List the plugins with `plugin status`; a plugin exists after its job is registered.";
    PluginUnknown = "plugin/unknown": "The volume names a plugin that the server does not know.",
        "Check `plugin_id` with `plugin status`, or start the plugin's job and wait until it is healthy.";
    PluginNoController = "plugin/no-controller": "The plugin has no controller, or the server has not detected it yet.",
        "Start the plugin's controller and wait until it is healthy; without a controller, volumes can only be registered.";
    PluginUnhealthy = "plugin/unhealthy": "The request needs the plugin's controller, and no controller is healthy.",
        "Check `plugin status` and the logs of the plugin's allocations.";
    PluginUnsupported = "plugin/unsupported": "The plugin does not support this operation.",
        "Use the provider's own tools, or a plugin that supports the operation.";
    PluginTopology = "plugin/topology": "The volume requires a topology that no healthy node of the plugin has, so no task could use it.",
        "Compare `topology_request` with `plugin status -o wide`, and start the plugin on a node of the topology.";
    PluginSnapshot = "plugin/snapshot": "A file with what is known of a plugin cannot be used: it is no `*.plugin.json` of `plugin snapshot` or `plugin probe`, or two files are of one plugin.",
        "Write the file again with `nomad-csi plugin snapshot ID --out FILE`, or with `nomad-csi plugin probe --endpoint URL -o json`.";
    PluginNoSnapshot = "plugin/no-snapshot": "The directory of `--plugins` has no file of the plugin that a volume names. The name may have a typing error.",
        "Correct `plugin_id`, or add the plugin's file: `nomad-csi plugin snapshot ID --out FILE` writes it.";
    PluginSnapshotOutdated = "plugin/snapshot-outdated": "The file of a plugin says something else than the server. The command uses what the server says.",
        "Write the file again with `nomad-csi plugin snapshot ID --out FILE`, so that `validate` uses what is true now.";
    PluginModeRefused = "plugin/mode-refused": "The plugin refused this access mode for the volume that `plugin probe --volume` asked about.",
        "Use a mode that the plugin confirmed; `volume_modes` in its file lists them.";
    PluginUnreachable = "plugin/unreachable": "The server could not reach the node of the plugin's controller.",
        "Check that the node is up and its agent is connected, then run the command again.";
    PluginExhausted = "plugin/exhausted": "The provider has no space left in the requested topology.",
        "Free space, request a smaller size, or allow other topologies.";
    PluginConflict = "plugin/conflict": "The provider has a volume of this name with other properties.",
        "Choose another name, or request the properties of the existing volume.";
    PluginCapacity = "plugin/capacity": "The provider cannot create a volume of this size.",
        "Request a size that the provider offers; its documentation lists the limits and steps.";
    PluginSourceNotFound = "plugin/source-not-found": "The provider does not have the snapshot or volume to copy from.",
        "Check `snapshot_id` or `clone_id`; each must be an ID of the provider.";
    PluginVolumeNotFound = "plugin/volume-not-found": "The provider has no volume of this external ID.",
        "Check `external_id` with the provider's own tools.";
    PluginCapability = "plugin/capability": "The provider does not support the requested capabilities for this volume.",
        "Request capabilities that the provider supports.";
    PluginInternal = "plugin/internal": "The plugin returned an internal error.",
        "Read the logs of the plugin's controller.";
    PluginRefused = "plugin/refused": "The plugin refused the request.",
        "Read the plugin's error and the logs of its controller.";

    // --- server: errors of the embedded agent that Nomad does not have
    VolumePending = "volume/pending": "The plugin was asked to create, expand, modify or delete the volume, and the result is not known yet.",
        "Send the same request again; it continues the operation, and nothing is created or deleted twice.";
    VolumeCreating = "volume/creating": "The creation of the volume did not end, so the provider may have it under a name of its own.",
        "Wait until the agent has continued it (`volume status`), or give it up with `volume abandon`.";
    VolumeMayRemain = "volume/may-remain": "A creation was given up, and the provider may have the volume.",
        "Look for the name at the provider, and delete the volume there if nothing needs it.";
    VolumeBeingDeleted = "volume/being-deleted": "A deletion of the volume was started and has not finished.",
        "Delete the volume again to finish; after that its ID is free.";
    VolumeShared = "volume/shared": "The provider's volume is registered more than once. Deleting it would also delete the data of the other registrations.",
        "Deregister the other volumes first, or deregister this one and keep the data.";
    SnapshotInvalid = "snapshot/invalid": "The snapshot name or ID in the request is not valid.",
        "Give a name of up to 128 bytes without control characters, or the provider's ID of an existing snapshot.";
    SnapshotConflict = "snapshot/conflict": "The provider has a snapshot of this name of another volume.",
        "Choose another name; snapshot names are unique at a provider.";
    SnapshotPending = "snapshot/pending": "The plugin was asked to create or delete the snapshot, and the result is not known yet.",
        "Send the same request again; no second snapshot is created, and a deleted snapshot counts as deleted.";
    VariableInvalid = "variable/invalid": "The request for the variable or its lock is not valid.",
        "Correct what the server's error names.";
    ServerBusy = "server/busy": "Too many requests wait for the same volume or plugin.",
        "Send the request again later; it changed nothing.";
    ServerLimit = "server/limit": "The agent's state has as many objects, or as many bytes of them, as a limit allows.",
        "Delete what is not needed, or start the agent with a larger `--limit`; `docs/security.md` lists the limits.";
    ServerStopping = "server/stopping": "The agent is stopping and accepts no new changes.",
        "Send the request again after the agent has restarted.";
    ServerSecrets = "server/secrets": "The agent's key does not decrypt the secrets that are stored for the volume.",
        "Restore the agent's key file, or register the volume again with its secrets.";
    ServerUnknownPath = "server/unknown-path": "The server has no endpoint at this path, or it does not support this method.",
        "Check the path and the method; `/v1/volumes?type=csi` lists volumes.";

    // --- journal: the agent's stored state
    JournalDiskFull = "journal/disk-full": "The disk of the agent's journal is full, so the agent refuses changes. The stored data is intact.",
        "Free space on the file system of the data directory and send the refused requests again; the agent recovers without a restart.";
    JournalUnavailable = "journal/unavailable": "The file of the agent's journal cannot be opened, read or written.",
        "Fix the operating system error for the file, its directory or its disk, and restart the agent if it has exited.";
    JournalInUse = "journal/in-use": "Another process has the agent's journal open. Only one process may write to it.",
        "Stop the other process, or use another data directory.";
    JournalMissing = "journal/missing": "The agent's journal is missing, but the key of its secrets and the catalogue of its plugin are there. A new journal would forget every volume.",
        "Restore `journal.redb`, or the whole data directory, from a backup. Without a backup, start with an empty data directory; the data of the volumes stays in `plugins/hostpath` of this one.";
    JournalDamaged = "journal/damaged": "The agent's journal is damaged, or another program wrote it.",
        "Copy the data directory, then restore a backup of the whole directory. Without a backup, start with an empty directory and register the volumes again; the provider still has their data.";
    JournalTooNew = "journal/too-new": "A later version of this program wrote the agent's journal, and this version cannot read it.",
        "Start the version that wrote it, or a later one.";
    JournalEtcdFull = "journal/etcd-full": "The etcd cluster of the journal has no space, so the server refuses changes. The stored data is intact.",
        "Run `nomad-csi agent etcd reclaim --config FILE`, or raise etcd's quota, and send the refused requests again; the server recovers without a restart.";
    JournalNotLeader = "journal/not-leader": "Another server has become the leader, so this one changes nothing. The refused change was not made.",
        "Send the request again: the new leader answers it.";

    // --- agent
    AgentNoMode = "agent/no-mode": "The agent needs a mode.",
        "Start it with --dev, which runs server and node in one process, or as `agent server` or `agent node`.";
    AgentBadConfig = "agent/config": "The configuration file of a server or a node cannot be read, or has a key or a value that is not possible.",
        "Correct the file; docs/cluster.md lists the keys.";
    AgentCertificate = "agent/certificate": "A certificate of a server or a node, or its key, cannot be made or used.",
        "Issue another one with `nomad-csi agent tls`, or correct the path in the configuration.";
    AgentBadAddress = "agent/bad-address": "The listen address is not valid.",
        "Write an IP address and a port: 127.0.0.1:4646 or [::1]:4646.";
    AgentBadLimit = "agent/bad-limit": "The text is not a limit of the agent's HTTP API, or its value is out of range.",
        "Write --limit NAME=VALUE; docs/security.md lists the names, defaults and ranges.";
    AgentBadHostVolume = "agent/host-volume": "A host volume has no valid name, or its path is no directory.",
        "Use `--host-volume NAME=PATH` with the absolute path of an existing directory.";
    AgentBadPluginEndpoint = "agent/plugin-endpoint": "A plugin that runs already cannot be used: its socket or its ID is not valid, or its name is unknown.",
        "Use `--plugin-endpoint [ID=]unix:///PATH` with the plugin's own socket.";
    AgentNotLoopback = "agent/not-loopback": "Every client that reaches the agent's HTTP address can read its volumes and jobs without a token, and the agent has no TLS.",
        "Listen on a loopback address, or pass --allow-unauthenticated on a network that you trust.";
    AgentPortInUse = "agent/port-in-use": "Another process already listens on the address.",
        "Stop that process, or choose another address with --http ADDR:PORT.";
    AgentCannotListen = "agent/cannot-listen": "The operating system does not allow the agent to listen on the address.",
        "Choose another address with --http ADDR:PORT, or another directory.";
    AgentDirectory = "agent/directory": "The agent cannot use one of its directories.",
        "Give a directory on a local disk that you can write to, with --data-dir or --embedded=DIR.";
    AgentNoStateHome = "agent/no-state-home": "Neither XDG_STATE_HOME nor HOME is set, so the agent has no default data directory.",
        "Give a directory with --embedded=DIR.";
    AgentNodeId = "agent/node-id": "The agent cannot read or create the file that says which node it is.",
        "Restore `node.id` from a backup, or write the ID of this node into it: 36 characters and a line break.";
    AgentPluginNotHealthy = "agent/plugin-not-healthy": "The embedded plugin started but did not become healthy.",
        "Read the plugin's last output; with -vv the log contains all of it.";
    // --- plugins reached over their socket
    PluginSocket = "plugin/socket": "No CSI plugin answers on the socket.",
        "Give the plugin's own socket as unix:// and an absolute path, and start the plugin first.";
    HostpathCannotServe = "hostpath/cannot-serve": "The embedded plugin cannot start with these settings.",
        "Correct the endpoint, the state directory or the node ID as the message describes.";
    LogBadFilter = "log/bad-filter": "NOMAD_CSI_LOG is not a valid list of log directives.",
        "Correct NOMAD_CSI_LOG, or unset it.";

    // --- data: the agent's data directory
    DataInUse = "data/in-use": "Another agent holds the lock of the data directory. Only one agent may write to it.",
        "Use or stop the other agent, or give another directory.";
    DataUnavailable = "data/unavailable": "The lock file in the data directory cannot be used.",
        "Check that the directory exists, that you own it, and that its file system supports locks.";

    FileNotPrivate = "file/not-private": "Another user could read or change a file, directory or socket of this program: it belongs to that user, others can write to it, or it is a link.",
        "Use a path of your own. If you trust what is there, give it to yourself with `chown` and remove the permissions of others with `chmod go-w`.";

    // --- key: the key that encrypts stored secrets
    KeyMissing = "key/missing": "The data directory contains encrypted secrets, but the key file is missing.",
        "Restore the key file from a backup. Without a backup, start with an empty data directory and register the volumes again with their secrets.";
    KeyWrong = "key/wrong": "The key file does not decrypt the secrets in the data directory.",
        "Restore the key file that belongs to this data directory.";
    KeyExposed = "key/exposed": "Other users can read or write the key file, so the key may be known.",
        "Set its mode to 0600 with the command shown; if other users had access, change the secrets themselves.";
    KeyMalformed = "key/malformed": "The key file does not contain a key of this program.",
        "Restore the key file from a backup; do not edit it.";
    KeyUnavailable = "key/unavailable": "The key file cannot be read or created.",
        "Fix the operating system error for the file or its directory.";

    // --- internal
    Internal = "internal": "The program found an inconsistency in its own data. This is a bug.",
        "Report the bug with the message and the command; the program changed nothing after it found the problem.";
}

impl Code {
    /// Returns whether a request failed because the server did not respond or had no leader.
    pub fn means_server_away(self) -> bool {
        matches!(
            self,
            Self::ApiConnectionRefused
                | Self::ApiConnectionLost
                | Self::ApiUnreachable
                | Self::ApiSocket
                | Self::ApiTimeout
                | Self::ApiNoLeader
        )
    }

    /// Returns the code with this identifier.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// Returns the remedy as a `help` line writes it: no capital at its start, no full stop at its
    /// end.
    pub fn advice(self) -> String {
        let sentence = self.remedy();
        let text = sentence.strip_suffix('.').unwrap_or(sentence);
        let (first, rest) = text.split_at(1);
        first.to_ascii_lowercase() + rest
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
