//! The table of all functions.
//!
//! The static check, `explain function`, the generated documentation and the evaluator read this
//! table only. A test evaluates every example.

use super::call::Failure;
use super::{collections, encoding, numbers, text};
use crate::expression::budget::Budget;
use crate::expression::tree::FunctionId;
use crate::expression::value::{Kind, Value};

/// A function of expressions.
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The names and types of its parameters, as documented: `separator: text, items: list`.
    pub parameters: &'static str,
    /// The type of its result.
    pub result: &'static str,
    /// What it returns, in one sentence.
    pub summary: &'static str,
    /// An expression that uses it.
    pub example: &'static str,
    /// The value of the example, as an expression.
    pub example_result: &'static str,
    /// The arguments in words, for a message: "2 arguments: a list and a number".
    pub(in crate::expression) requirement: &'static str,
    types: &'static [Type],
    /// The least number of arguments.
    pub(in crate::expression) least: usize,
    /// The greatest number of arguments; `None` if there is no limit, and the last type repeats.
    pub(in crate::expression) most: Option<usize>,
    pub(in crate::expression) mark: Mark,
    pub(in crate::expression) run: Run,
}

type Run = fn(&[Value], &mut Budget) -> Result<Value, Failure>;

/// Which marks of the arguments the result has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::expression) enum Mark {
    /// Any mark in any argument.
    Inner,
    /// Marks of whole arguments. Items in the result keep their own.
    Outer,
}

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Number,
    List,
    Map,
    /// A text, a list or a map.
    Sized,
    Any,
}

impl Type {
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Number => "a number",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Sized => "a text, a list or a map",
            Self::Any => "a value",
        }
    }

    const fn accepts(self, kind: &Kind) -> bool {
        match self {
            Self::Text => matches!(kind, Kind::Text(_)),
            Self::Number => matches!(kind, Kind::Integer(_) | Kind::Float(_)),
            Self::List => matches!(kind, Kind::List(..)),
            Self::Map => matches!(kind, Kind::Map(..)),
            Self::Sized => matches!(kind, Kind::Text(_) | Kind::List(..) | Kind::Map(..)),
            Self::Any => true,
        }
    }
}

impl Function {
    /// Returns the function with a name.
    pub(in crate::expression) fn find(name: &str) -> Option<FunctionId> {
        let index = FUNCTIONS.iter().position(|function| function.name == name)?;
        u8::try_from(index).ok().map(FunctionId)
    }

    /// Returns the function of an ID.
    pub(in crate::expression) fn get(id: FunctionId) -> Option<&'static Self> {
        FUNCTIONS.get(usize::from(id.0))
    }

    /// Returns whether it takes so many arguments.
    pub(in crate::expression) fn takes(&self, count: usize) -> bool {
        count >= self.least && self.most.is_none_or(|most| count <= most)
    }

    /// Returns the type that the argument at an index should have, if it has another.
    pub(in crate::expression) fn wrong_type(
        &self,
        index: usize,
        value: &Value,
    ) -> Option<&'static str> {
        let expected = self.types.get(index).or(self.types.last())?;
        (!expected.accepts(&value.kind)).then(|| expected.name())
    }
}

/// One row of the table.
macro_rules! functions {
    ($($name:ident($($parameters:literal)?; $($type:ident),*; $least:literal $most:ident $($limit:literal)?)
        $requirement:literal -> $result:literal, $mark:ident, $run:path, $summary:literal, $example:literal = $value:literal;)*) => {
        /// All functions, by group.
        pub const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            parameters: concat!($($parameters)?),
            result: $result,
            summary: $summary,
            example: $example,
            example_result: $value,
            requirement: $requirement,
            types: &[$(Type::$type),*],
            least: $least,
            most: functions!(@$most $($limit)?),
            mark: Mark::$mark,
            run: $run,
        },)*];
    };
    (@to $limit:literal) => { Some($limit) };
    (@more) => { None };
}

functions! {
    format("template: text, value…"; Text, Any; 1 more) "a text and a value for each verb" -> "text", Inner, text::format,
        "Returns a text with values in place of `%s`, `%d`, `%f` and `%q`; `%%` is a percent sign, and a verb may have a width and `0`.",
        "format(\"db-%03d\", 7)" = "\"db-007\"";
    join("separator: text, items: list"; Text, List; 2 to 2) "2 arguments: a text and a list" -> "text", Inner, text::join,
        "Returns the texts and numbers of a list as one text, with a separator between them.",
        "join(\"-\", [\"a\", 1])" = "\"a-1\"";
    split("separator: text, whole: text"; Text, Text; 2 to 2) "2 arguments: two texts" -> "list", Inner, text::split,
        "Returns the parts of a text between separators.",
        "split(\",\", \"a,b\")" = "[\"a\", \"b\"]";
    lower("whole: text"; Text; 1 to 1) "1 argument: a text" -> "text", Inner, text::lower,
        "Returns a text in lower case.",
        "lower(\"EU\")" = "\"eu\"";
    upper("whole: text"; Text; 1 to 1) "1 argument: a text" -> "text", Inner, text::upper,
        "Returns a text in upper case.",
        "upper(\"eu\")" = "\"EU\"";
    replace("whole: text, part: text, by: text"; Text, Text, Text; 3 to 3) "3 arguments: three texts" -> "text", Inner, text::replace,
        "Returns a text in which every occurrence of a part is replaced; the part is literal.",
        "replace(\"a_b\", \"_\", \"-\")" = "\"a-b\"";
    substr("whole: text, start: number, length: number"; Text, Number, Number; 3 to 3) "3 arguments: a text and two numbers" -> "text", Inner, text::substr,
        "Returns the characters of a text from a start; the length -1 is the rest.",
        "substr(\"volume\", 0, 3)" = "\"vol\"";
    matches("pattern: text, whole: text"; Text, Text; 2 to 2) "2 arguments: a pattern and a text" -> "boolean", Inner, text::matches,
        "Returns whether a regular expression in RE2 syntax matches a part of a text.",
        "matches(\"^[a-z]+$\", \"prod\")" = "true";
    length("value: text, list or map"; Sized; 1 to 1) "1 argument: a text, a list or a map" -> "number", Outer, collections::length,
        "Returns the number of characters of a text, or of items of a list or map.",
        "length([\"a\", \"b\"])" = "2";
    keys("items: map"; Map; 1 to 1) "1 argument: a map" -> "list", Outer, collections::keys,
        "Returns the keys of a map in order.",
        "keys({ b = 1, a = 2 })" = "[\"a\", \"b\"]";
    lookup("items: map, key: text, other: any"; Map, Text, Any; 3 to 3) "3 arguments: a map, a text and a value" -> "any", Outer, collections::lookup,
        "Returns the value of a key of a map, or the other value if the map has no such key.",
        "lookup({ eu = \"20GiB\" }, \"us\", \"10GiB\")" = "\"10GiB\"";
    element("items: list, index: number"; List, Number; 2 to 2) "2 arguments: a list and a number" -> "any", Outer, collections::element,
        "Returns the item of a list at an index; after the last item comes the first again.",
        "element([\"a\", \"b\"], 2)" = "\"a\"";
    contains("items: list, value: any"; List, Any; 2 to 2) "2 arguments: a list and a value" -> "boolean", Inner, collections::contains,
        "Returns whether a list has an item that equals a value.",
        "contains([\"a\"], \"a\")" = "true";
    merge("items: map…"; Map; 1 more) "one or more maps" -> "map", Outer, collections::merge,
        "Returns the items of all maps; of items with the same key, the last one.",
        "merge({ a = 1 }, { a = 2 })" = "{ a = 2 }";
    concat("items: list…"; List; 1 more) "one or more lists" -> "list", Outer, collections::concat,
        "Returns the items of all lists in one list.",
        "concat([1], [2])" = "[1, 2]";
    flatten("items: list"; List; 1 to 1) "1 argument: a list" -> "list", Outer, collections::flatten,
        "Returns the items of a list and of all lists in it, in one list.",
        "flatten([[1], [2, [3]]])" = "[1, 2, 3]";
    distinct("items: list"; List; 1 to 1) "1 argument: a list" -> "list", Inner, collections::distinct,
        "Returns the items of a list without those that equal an earlier one.",
        "distinct([1, 2, 1])" = "[1, 2]";
    range("start: number, end: number"; Number, Number; 1 to 2) "1 or 2 arguments: numbers" -> "list", Inner, collections::range,
        "Returns the whole numbers from the start, or from 0 if there is one argument, to below the end.",
        "range(3)" = "[0, 1, 2]";
    coalesce("value: any…"; Any; 1 more) "one or more values" -> "any", Outer, collections::coalesce,
        "Returns the first value that is neither null nor an empty text.",
        "coalesce(null, \"\", \"eu-1a\")" = "\"eu-1a\"";
    tonumber("text: text"; Text; 1 to 1) "1 argument: a text" -> "number", Inner, numbers::tonumber,
        "Returns the number that a text is.",
        "tonumber(\"10\")" = "10";
    tostring("value: any"; Any; 1 to 1) "1 argument: a text, a number or a boolean" -> "text", Inner, text::tostring,
        "Returns a number or a boolean as a text.",
        "tostring(10)" = "\"10\"";
    min("number: number…"; Number; 1 more) "one or more numbers" -> "number", Inner, numbers::min,
        "Returns the smallest number.",
        "min(3, 1, 2)" = "1";
    max("number: number…"; Number; 1 more) "one or more numbers" -> "number", Inner, numbers::max,
        "Returns the largest number.",
        "max(3, 1, 2)" = "3";
    floor("number: number"; Number; 1 to 1) "1 argument: a number" -> "number", Inner, numbers::floor,
        "Returns the largest whole number that is not above a number.",
        "floor(7 / 2)" = "3";
    jsonencode("value: any"; Any; 1 to 1) "1 argument: a value" -> "text", Inner, encoding::jsonencode,
        "Returns a value as compact JSON, with keys in order.",
        "jsonencode({ a = [1] })" = "\"{\\\"a\\\":[1]}\"";
    bytes("size: text"; Text; 1 to 1) "1 argument: a size" -> "number", Inner, numbers::bytes,
        "Returns the bytes of a size, written as in the fields of a volume.",
        "bytes(\"1KiB\")" = "1024";
}
