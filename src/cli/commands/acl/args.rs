//! The arguments of `acl`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use crate::cli::args::{OutputArgs, not_empty};
use nomad_csi_model::GoDuration;

/// The subcommands of `acl`.
#[derive(Subcommand, Debug)]
pub(crate) enum AclCommand {
    /// Make the first token of a cluster
    ///
    /// The token may do everything. Its secret is printed once and is not stored. Only the operator of a server makes
    /// it: on that machine, with `NOMAD_ADDR=unix://…/agent.sock`, or with the token in `operator.token` of the
    /// server's data directory. Nomad lets the first client that comes make it.
    #[command(after_long_help = "Example:\n  nomad-csi acl bootstrap -o json")]
    Bootstrap(AclOutputArgs),
    /// Create, list, change and delete tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Apply, list and delete policies
    #[command(subcommand)]
    Policy(PolicyCommand),
}

/// Arguments of a command that prints something.
#[derive(Args, Debug)]
pub(crate) struct AclOutputArgs {
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The subcommands of `acl token`.
#[derive(Subcommand, Debug)]
pub(crate) enum TokenCommand {
    /// Create a token
    ///
    /// Its secret is printed once and is not stored. A policy that does not exist yet grants nothing until it does.
    #[command(
        after_long_help = "Examples:\n  nomad-csi acl token create --name ci --acl-policy storage --ttl 8h\n  nomad-csi acl token create --name admin --type management"
    )]
    Create(TokenCreateArgs),
    /// List the tokens, without their secrets
    #[command(after_long_help = "Example:\n  nomad-csi acl token list")]
    #[command(aliases = ["ls", "status", "get"])]
    List(AclOutputArgs),
    /// Show a token
    #[command(
        after_long_help = "Example:\n  nomad-csi acl token show 58b7ce24-6b21-4a0c-9a0e-3f6d7a1c2e90"
    )]
    #[command(aliases = ["info", "read", "describe"])]
    Show(TokenShowArgs),
    /// Show the token that this command uses
    #[command(name = "self", after_long_help = "Example:\n  nomad-csi acl token self")]
    Own(AclOutputArgs),
    /// Change the name, the type and the policies of a token
    ///
    /// What is not given stays. The secret and the expiry stay always.
    #[command(
        after_long_help = "Example:\n  nomad-csi acl token update 58b7ce24-6b21-4a0c-9a0e-3f6d7a1c2e90 --acl-policy storage --acl-policy read"
    )]
    Update(TokenUpdateArgs),
    /// Delete a token
    #[command(
        after_long_help = "Example:\n  nomad-csi acl token delete 58b7ce24-6b21-4a0c-9a0e-3f6d7a1c2e90"
    )]
    Delete(TokenNameArgs),
}

/// The type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenType {
    /// It may do what its policies grant.
    Client,
    /// It may do everything.
    Management,
}

/// Arguments of `acl token create`.
#[derive(Args, Debug)]
pub(crate) struct TokenCreateArgs {
    /// Name for people
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub name: String,
    /// Type of the token
    #[arg(long = "type", value_name = "TYPE", default_value = "client")]
    pub kind: TokenType,
    /// Policy of the token (repeatable)
    #[arg(long = "acl-policy", value_name = "NAME", value_parser = not_empty())]
    pub policies: Vec<String>,
    /// Time after which the token ends, such as 8h [default: never]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub ttl: Option<String>,
    /// Mark the token as one of all regions, as Nomad's clients do
    #[arg(long)]
    pub global: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `acl token show`.
#[derive(Args, Debug)]
pub(crate) struct TokenShowArgs {
    /// Accessor ID of the token
    #[arg(value_name = "ACCESSOR-ID", value_parser = not_empty())]
    pub accessor: String,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `acl token update`.
#[derive(Args, Debug)]
pub(crate) struct TokenUpdateArgs {
    /// Accessor ID of the token
    #[arg(value_name = "ACCESSOR-ID", value_parser = not_empty())]
    pub accessor: String,
    /// New name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// New type
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<TokenType>,
    /// Policy of the token from now on (repeatable)
    #[arg(long = "acl-policy", value_name = "NAME", value_parser = not_empty())]
    pub policies: Vec<String>,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `acl token delete`.
#[derive(Args, Debug)]
pub(crate) struct TokenNameArgs {
    /// Accessor ID of the token
    #[arg(value_name = "ACCESSOR-ID", value_parser = not_empty())]
    pub accessor: String,
}

/// The subcommands of `acl policy`.
#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// Create or change a policy
    ///
    /// The rules are those of Nomad's policies, in HCL or JSON. A word that is not known is refused.
    #[command(
        after_long_help = "Example:\n  nomad-csi acl policy apply storage storage.policy.hcl --description volumes"
    )]
    Apply(PolicyApplyArgs),
    /// List the policies that the token may read
    #[command(after_long_help = "Example:\n  nomad-csi acl policy list")]
    #[command(aliases = ["ls", "status", "get"])]
    List(AclOutputArgs),
    /// Show a policy with its rules
    #[command(after_long_help = "Example:\n  nomad-csi acl policy show storage")]
    #[command(aliases = ["info", "read", "describe"])]
    Show(PolicyShowArgs),
    /// Delete a policy
    ///
    /// Tokens that name it lose what it granted.
    #[command(after_long_help = "Example:\n  nomad-csi acl policy delete storage")]
    Delete(PolicyNameArgs),
}

/// Arguments of `acl policy apply`.
#[derive(Args, Debug)]
pub(crate) struct PolicyApplyArgs {
    /// Name: 1 to 128 letters, digits and `-`
    #[arg(value_name = "NAME", value_parser = not_empty())]
    pub name: String,
    /// File with the rules
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Description for people; without it, the one that the policy has stays
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
}

/// Arguments of `acl policy show`.
#[derive(Args, Debug)]
pub(crate) struct PolicyShowArgs {
    /// Exact name
    #[arg(value_name = "NAME", value_parser = not_empty())]
    pub name: String,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `acl policy delete`.
#[derive(Args, Debug)]
pub(crate) struct PolicyNameArgs {
    /// Exact name
    #[arg(value_name = "NAME", value_parser = not_empty())]
    pub name: String,
}

/// A duration as servers read it.
fn lifetime(text: &str) -> Result<String, String> {
    let parsed = GoDuration::parse(text).ok().and_then(GoDuration::to_std);
    match parsed {
        Some(life) if !life.is_zero() => Ok(text.to_owned()),
        Some(_) | None => Err("expected a number with a unit, such as 30m, 8h or 720h".to_owned()),
    }
}
