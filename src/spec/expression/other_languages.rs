//! Functions and names of Terraform and Nomad that the language does not have, and what it has in their place.

/// Returns the label and the help of a function that is none here. Both name what works.
pub(super) fn function(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "toset" | "tolist" => {
            ("a list works", "write the list itself: `for_each = [\"a\", \"b\"]`")
        }
        "tomap" | "map" => ("a map works", "write the map itself: `{ a = 1 }`"),
        "list" => ("a list works", "write the list itself: `[\"a\", \"b\"]`"),
        "tobool" => {
            ("not a function", "set `type = bool` in the variable, or compare: `x == \"true\"`")
        }
        "templatefile" => (
            "no file is read",
            "write a here-document with `${…}`, or give the text in a file of variables (`--var-file FILE`)",
        ),
        "jsondecode" | "yamldecode" | "csvdecode" => (
            "no file is read",
            "give the values in a file of variables, which can be JSON or YAML: `--var-file FILE`",
        ),
        "fileset" | "fileexists" | "filebase64" | "filemd5" | "filesha256" | "abspath" => {
            ("no file is read", "give the values in a file of variables: `--var-file FILE`")
        }
        "try" | "can" => (
            "not a function",
            "use `lookup(MAP, \"KEY\", OTHER)` for a missing key, and `coalesce(…)` for null",
        ),
        "regex" | "regexall" => {
            ("not a function", "use `matches(\"PATTERN\", TEXT)`, or `split` and `replace`")
        }
        "startswith" | "endswith" | "strcontains" => {
            ("not a function", "use `matches(\"PATTERN\", TEXT)`")
        }
        "formatlist" => ("not a function", "write `[for x in LIST : format(\"…\", x)]`"),
        "values" => ("not a function", "write `[for k, v in MAP : v]`"),
        "zipmap" => ("not a function", "write `{ for i, k in KEYS : k => VALUES[i] }`"),
        "setproduct" => (
            "not a function",
            "write `flatten([for a in LIST : [for b in OTHER : { a = a, b = b }]])`",
        ),
        "compact" => ("not a function", "write `[for x in LIST : x if x != \"\"]`"),
        "setunion" => ("not a function", "write `distinct(concat(LIST, OTHER))`"),
        "one" => ("not a function", "write `LIST[0]`"),
        "sensitive" | "nonsensitive" => {
            ("not a function", "set `sensitive = true` in the variable")
        }
        "ceil" => ("not a function", "write `-floor(-x)`"),
        "abs" => ("not a function", "write `max(x, -x)`"),
        "title" | "trimspace" | "trim" | "trimprefix" | "trimsuffix" | "chomp" | "indent"
        | "sort" | "reverse" | "index" | "chunklist" | "slice" | "sum" | "cidrsubnet"
        | "cidrhost" | "base64encode" | "base64decode" | "md5" | "sha1" | "sha256"
        | "urlencode" | "yamlencode" | "pow" | "log" | "parseint" | "formatdate" | "timeadd" => (
            "not a function here",
            "docs/functions.md lists the functions; or give the value as a variable",
        ),
        _ => return None,
    })
}

/// Returns what to do about a name at the start of a reference of Terraform.
pub(super) fn root(word: &str) -> Option<&'static str> {
    Some(match word {
        "data" | "module" | "resource" => {
            "write the value itself, or give it as a variable: `var.NAME`"
        }
        "path" => {
            "paths of `file(\"…\")` start at the directory of the file; write the path itself"
        }
        "terraform" => "give the name of the environment as a variable: `var.NAME`",
        "self" => "write `volume.id`, `volume.key` or `volume.label`",
        "env" => "write `env(\"NAME\")` in `secrets`, or give the value as a variable",
        "locals" => "write `local.NAME`",
        "variable" | "vars" | "variables" => "write `var.NAME`",
        _ if word.starts_with("nomad_")
            || word.starts_with("aws_")
            || word.starts_with("random_") =>
        {
            "write the value itself, or give it as a variable: `var.NAME`"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    /// The code of each help, with values for its words: the value is that of the function in Terraform.
    #[test]
    fn what_takes_the_place_of_a_function_has_its_value() {
        for (name, written, here, value) in [
            ("toset", "[\"a\", \"b\"]", "[\"a\", \"b\"]", "[\"a\", \"b\"]"),
            ("tomap", "{ a = 1 }", "{ a = 1 }", "{ a = 1 }"),
            ("tobool", "x == \"true\"", "\"true\" == \"true\"", "true"),
            ("try", "lookup(MAP, \"KEY\", OTHER)", "lookup({ a = 1 }, \"b\", 2)", "2"),
            ("try", "coalesce(…)", "coalesce(null, 2)", "2"),
            ("regex", "matches(\"PATTERN\", TEXT)", "matches(\"^a\", \"ab\")", "true"),
            ("startswith", "matches(\"PATTERN\", TEXT)", "matches(\"^a\", \"ab\")", "true"),
            (
                "formatlist",
                "[for x in LIST : format(\"…\", x)]",
                "[for x in [1] : format(\"a%d\", x)]",
                "[\"a1\"]",
            ),
            ("values", "[for k, v in MAP : v]", "[for k, v in { a = 1, b = 2 } : v]", "[1, 2]"),
            (
                "zipmap",
                "{ for i, k in KEYS : k => VALUES[i] }",
                "{ for i, k in [\"a\"] : k => [5][i] }",
                "{ a = 5 }",
            ),
            (
                "setproduct",
                "flatten([for a in LIST : [for b in OTHER : { a = a, b = b }]])",
                "flatten([for a in [1] : [for b in [2] : { a = a, b = b }]])",
                "[{ a = 1, b = 2 }]",
            ),
            (
                "compact",
                "[for x in LIST : x if x != \"\"]",
                "[for x in [\"\", \"a\"] : x if x != \"\"]",
                "[\"a\"]",
            ),
            (
                "setunion",
                "distinct(concat(LIST, OTHER))",
                "distinct(concat([1], [1, 2]))",
                "[1, 2]",
            ),
            ("one", "LIST[0]", "[7][0]", "7"),
            ("ceil", "-floor(-x)", "-floor(-(5 / 2))", "3"),
            ("abs", "max(x, -x)", "max(-5, -(-5))", "5"),
        ] {
            let (_, help) = function(name).expect("a function with a help");
            assert!(
                help.contains(&format!("`{written}`")) || help.contains(written),
                "{name}: {help}"
            );
            assert_eq!(run(here), run(value), "{name}");
        }
    }
}
