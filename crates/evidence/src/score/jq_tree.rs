//! The normalized syntax tree of a jq program, parsed by jaq.
//!
//! Programs that differ only in spelling have the same tree: `map(f)` is `[.[] | f]`, a default
//! (`.title // ""`) and a type filter (`strings`) are left out, operands of `and` are sorted.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::Part;

/// The longest program that is parsed, in bytes.
const MAX_PROGRAM_LEN: usize = 16 * 1024;
/// The label of a sequence of filters.
pub(super) const PIPE: &str = "|";
/// Filters that pass values of one type.
const TYPE_FILTERS: [&str; 6] = ["strings", "arrays", "objects", "numbers", "scalars", "values"];

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JqNode {
    /// The operator, function, field or literal.
    pub(super) label: String,
    /// Whether the label is a value that a user of a recipe replaces.
    literal: bool,
    pub(super) children: Vec<JqNode>,
}

impl JqNode {
    /// A node without a value.
    pub(super) fn new(label: impl Into<String>, children: Vec<Self>) -> Self {
        Self { label: label.into(), literal: false, children }
    }

    fn literal(label: impl Into<String>) -> Self {
        Self { label: label.into(), literal: true, children: Vec::new() }
    }

    /// Parses a program; `None` if it is invalid.
    pub(super) fn parse(program: &str) -> Option<Self> {
        if program.len() > MAX_PROGRAM_LEN {
            return None;
        }
        let term = jaq_core::load::parse(program, |parser| parser.term())?;
        Some(node(&term))
    }

    /// The tree with every literal replaced by the same mark.
    pub(super) fn without_literals(&self) -> Self {
        let label = if self.literal { "?" } else { self.label.as_str() };
        Self {
            label: label.to_owned(),
            literal: self.literal,
            children: self.children.iter().map(Self::without_literals).collect(),
        }
    }

    /// The stages of a sequence; the node itself if it is none.
    pub(super) fn stages(&self) -> &[Self] {
        if self.label == PIPE { &self.children } else { std::slice::from_ref(self) }
    }

    /// A sequence of stages.
    pub(super) fn sequence(stages: Vec<Self>) -> Self {
        match <[Self; 1]>::try_from(stages) {
            Ok([only]) => only,
            Err(stages) => Self::new(PIPE, stages),
        }
    }

    /// Whether the stages occur, in sequence, anywhere in the tree.
    pub(super) fn contains(&self, stages: &[Self]) -> bool {
        self.stages().windows(stages.len().max(1)).any(|window| window == stages)
            || self.children.iter().any(|child| child.contains(stages))
    }

    /// The labels from the root to the leaves.
    pub(super) fn labels(&self) -> Vec<String> {
        let mut labels = vec![self.label.clone()];
        labels.extend(self.children.iter().flat_map(Self::labels));
        labels
    }
}

fn nodes<'t, 's: 't>(terms: impl IntoIterator<Item = &'t Term<&'s str>>) -> Vec<JqNode> {
    terms.into_iter().map(node).collect()
}

fn node(term: &Term<&str>) -> JqNode {
    match term {
        Term::Id => JqNode::new(".", vec![]),
        Term::Recurse => JqNode::new("..", vec![]),
        Term::Num(number) => JqNode::literal(*number),
        // Variables hold parameters.
        Term::Var(name) => JqNode::literal(*name),
        Term::Str(format, parts) => string(*format, parts),
        Term::Arr(None) => JqNode::literal("[]"),
        Term::Arr(Some(inner)) => JqNode::new("[]", vec![node(inner)]),
        Term::Obj(members) => {
            let members = members.iter().map(|(key, value)| member(key, value.as_ref()));
            JqNode::new("{}", members.collect())
        }
        Term::Neg(inner) => JqNode::new("neg", vec![node(inner)]),
        Term::BinOp(left, operator, right) => binary(left, operator, right),
        Term::Label(_, inner) => JqNode::new("label", vec![node(inner)]),
        Term::Break(_) => JqNode::new("break", vec![]),
        Term::Fold(name, over, _, arguments) => {
            let children = std::iter::once(&**over).chain(arguments);
            JqNode::new(*name, nodes(children))
        }
        // Whether errors are ignored does not change what is asked.
        Term::TryCatch(inner, None) => node(inner),
        Term::TryCatch(inner, Some(caught)) => JqNode::new("try", vec![node(inner), node(caught)]),
        Term::IfThenElse(cases, otherwise) => {
            let cases = cases.iter().flat_map(|(condition, then)| [condition, then]);
            JqNode::new("if", nodes(cases.chain(otherwise.as_deref())))
        }
        Term::Def(definitions, body) => {
            let bodies = definitions.iter().map(|definition| &definition.body);
            JqNode::new("def", nodes(bodies.chain([&**body])))
        }
        Term::Call("map", arguments) if arguments.len() == 1 => {
            let each = JqNode::new(".[]", vec![]);
            JqNode::new("[]", vec![sequence([each, node(&arguments[0])])])
        }
        Term::Call(name, arguments) => JqNode::new(*name, nodes(arguments)),
        Term::Path(from, path) => {
            let mut children = Vec::new();
            if !matches!(**from, Term::Id) {
                children.push(node(from));
            }
            children.extend(path.0.iter().map(|(part, _)| path_part(part)));
            match <[JqNode; 1]>::try_from(children) {
                Ok([only]) => only,
                Err(children) => JqNode::new("path", children),
            }
        }
    }
}

fn path_part(part: &Part<Term<&str>>) -> JqNode {
    match part {
        Part::Index(index) => match plain_text(index) {
            Some(name) => JqNode::new(format!(".{name}"), vec![]),
            None => JqNode::new("index", vec![node(index)]),
        },
        Part::Range(None, None) => JqNode::new(".[]", vec![]),
        Part::Range(from, to) => JqNode::new("slice", nodes(from.iter().chain(to))),
    }
}

fn member(key: &Term<&str>, value: Option<&Term<&str>>) -> JqNode {
    let key = match plain_text(key) {
        Some(name) => JqNode::new(format!(".{name}"), vec![]),
        None => node(key),
    };
    match value.map(node) {
        // `{id: .id}` is `{id}`.
        Some(value) if value != key => JqNode::new(":", vec![key, value]),
        _ => key,
    }
}

fn binary(left: &Term<&str>, operator: &BinaryOp<&str>, right: &Term<&str>) -> JqNode {
    let (left, right) = (node(left), node(right));
    match operator {
        BinaryOp::Pipe(None) => sequence([left, right]),
        BinaryOp::Pipe(Some(_)) => JqNode::new("as", vec![left, right]),
        BinaryOp::Comma => JqNode::new(",", flat(",", [left, right])),
        // A default does not change what is asked.
        BinaryOp::Alt if right.literal || right.label == "empty" => left,
        BinaryOp::Alt => JqNode::new("//", vec![left, right]),
        BinaryOp::And => sorted("and", [left, right]),
        BinaryOp::Or => sorted("or", [left, right]),
        BinaryOp::Math(operator) => JqNode::new(operator.as_str(), vec![left, right]),
        BinaryOp::Cmp(operator) => {
            let label = operator.as_str();
            if matches!(label, "==" | "!=") && left.literal {
                return JqNode::new(label, vec![right, left]);
            }
            JqNode::new(label, vec![left, right])
        }
        BinaryOp::Assign => JqNode::new("=", vec![left, right]),
        BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
            JqNode::new("|=", vec![left, right])
        }
    }
}

/// A sequence without nested sequences and type filters.
fn sequence(parts: [JqNode; 2]) -> JqNode {
    let mut stages = flat(PIPE, parts);
    if stages.len() > 1 {
        stages.retain(|stage| !TYPE_FILTERS.contains(&stage.label.as_str()));
    }
    JqNode::sequence(stages)
}

fn sorted(label: &str, operands: [JqNode; 2]) -> JqNode {
    let mut operands = flat(label, operands);
    operands.sort();
    JqNode::new(label, operands)
}

/// The operands, with those of the same operator in place of it.
fn flat(label: &str, operands: [JqNode; 2]) -> Vec<JqNode> {
    let inner = |operand: JqNode| {
        if operand.label == label && !operand.literal { operand.children } else { vec![operand] }
    };
    operands.into_iter().flat_map(inner).collect()
}

fn string(format: Option<&str>, parts: &[StrPart<&str, Term<&str>>]) -> JqNode {
    let terms: Vec<JqNode> = parts
        .iter()
        .filter_map(|part| match part {
            StrPart::Term(term) => Some(node(term)),
            StrPart::Str(_) | StrPart::Char(_) => None,
        })
        .collect();
    match (format, terms.is_empty()) {
        (None, true) => JqNode::literal(format!("\"{}\"", text(parts))),
        (format, _) => JqNode::new(format.unwrap_or("string"), terms),
    }
}

/// The text of a string without interpolation.
fn plain_text(term: &Term<&str>) -> Option<String> {
    match term {
        Term::Str(None, parts) if parts.iter().all(|part| !matches!(part, StrPart::Term(_))) => {
            Some(text(parts))
        }
        _ => None,
    }
}

fn text(parts: &[StrPart<&str, Term<&str>>]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            StrPart::Str(part) => text.push_str(part),
            StrPart::Char(character) => text.push(*character),
            StrPart::Term(_) => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(program: &str) -> JqNode {
        JqNode::parse(program).unwrap()
    }

    #[test]
    fn spelling_does_not_matter() {
        let pairs = [
            ("map(.id)", "[.[] | .id]"),
            ("select(.title|test(\"a\"; \"i\"))", "select( .title | test(\"a\";\"i\") )"),
            ("select((.title // \"\") | test(\"a\"))", "select(.title | test(\"a\"))"),
            ("select(((.tags | arrays) // []) | index(\"a\"))", "select(.tags | index(\"a\"))"),
            ("{id: .id, title}", "{id, title}"),
            (".a == 1 and .b == 2 and .c", ".c and (.b == 2 and .a == 1)"),
            ("1 == .a", ".a == 1"),
            (".a?", ".a"),
            (".[\"a\"]", ".a"),
        ];
        for (one, other) in pairs {
            assert_eq!(tree(one), tree(other), "{one}");
        }
    }

    #[test]
    fn literals_can_be_left_out() {
        let (one, other) = (tree("select(.a == \"x\")"), tree("select(.a == $y)"));
        assert_ne!(one, other);
        assert_eq!(one.without_literals(), other.without_literals());
        assert_ne!(one.without_literals(), tree("select(.b == \"x\")").without_literals());
    }

    #[test]
    fn a_sequence_is_found_inside() {
        let inner = tree(".namespace | startswith(\"a\")");
        let outer = tree("[.[] | select((.namespace | startswith(\"a\")) and .b > 1)] | length");
        assert!(outer.contains(inner.stages()));
        assert!(!outer.contains(tree(".title | startswith(\"a\")").stages()));
    }

    #[test]
    fn invalid_programs_have_no_tree() {
        assert_eq!(JqNode::parse("select(.a"), None);
        assert_eq!(JqNode::parse(""), None);
    }
}
