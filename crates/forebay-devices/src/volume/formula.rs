//! Formulas of volume types: `min(16000, max(100, 3 * gib))`, `128 if gib <= 170 else 250`.
//!
//! ```text
//! formula    = comparison [ "if" comparison "else" formula ]
//! comparison = sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ]
//! sum        = product { ( "+" | "-" ) product }
//! product    = factor { ( "*" | "/" ) factor }
//! factor     = "-" factor | number | name | ( "min" | "max" ) "(" formula { "," formula } ")"
//!            | "(" formula ")"
//! ```
//!
//! A comparison that holds is 1, any other is 0; a condition holds unless it is 0.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A parsed formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Name(String),
    Negative(Box<Node>),
    Binary(Operator, Box<[Node; 2]>),
    Least(Vec<Node>),
    Greatest(Vec<Node>),
    /// A condition, the value if it is true, and the value if it is false.
    Choice(Box<[Node; 3]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// The maximum length of a formula in bytes.
const LEN_MAX: usize = 1000;
/// The maximum nesting depth of a formula.
const DEPTH_MAX: usize = 32;

impl Formula {
    /// Parses a formula.
    ///
    /// # Errors
    /// Describes the invalid text and what was expected.
    pub fn parse(text: &str) -> Result<Formula, String> {
        if text.len() > LEN_MAX {
            let got = text.len();
            return Err(format!("got a formula of {got} bytes, expected at most {LEN_MAX}"));
        }
        let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
        let root = parser.formula()?;
        match parser.peek() {
            None => Ok(Formula { text: text.to_string(), root }),
            Some(token) => Err(format!("formula '{text}': got '{token}', expected its end")),
        }
    }

    /// Creates a constant formula.
    pub fn number(value: f64) -> Formula {
        Formula { text: format!("{value}"), root: Node::Number(value) }
    }

    /// Returns the formula as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the names in the formula, including repetitions.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.collect_names(&mut names);
        names
    }

    /// Evaluates the formula. `value_of` returns the value of a name. Returns None if a name has no
    /// value or the result is not finite.
    pub fn value(&self, value_of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        self.root.value(value_of).filter(|value| value.is_finite())
    }
}

impl Node {
    fn collect_names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Node::Number(_) => {}
            Node::Name(name) => names.push(name),
            Node::Negative(node) => node.collect_names(names),
            Node::Binary(_, nodes) => nodes.iter().for_each(|node| node.collect_names(names)),
            Node::Choice(nodes) => nodes.iter().for_each(|node| node.collect_names(names)),
            Node::Least(nodes) | Node::Greatest(nodes) => {
                nodes.iter().for_each(|node| node.collect_names(names));
            }
        }
    }

    fn value(&self, value_of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        let fold = |nodes: &[Node], better: fn(f64, f64) -> f64| {
            let values = nodes.iter().map(|node| node.value(value_of));
            values.reduce(|a, b| Some(better(a?, b?))).flatten()
        };
        Some(match self {
            Node::Number(number) => *number,
            Node::Name(name) => value_of(name)?,
            Node::Negative(node) => -node.value(value_of)?,
            Node::Binary(operator, nodes) => {
                let [a, b] = &**nodes;
                operator.apply(a.value(value_of)?, b.value(value_of)?)
            }
            Node::Least(nodes) => fold(nodes, f64::min)?,
            Node::Greatest(nodes) => fold(nodes, f64::max)?,
            Node::Choice(nodes) => {
                let [condition, value, otherwise] = &**nodes;
                let holds = condition.value(value_of)? != 0.0;
                if holds { value.value(value_of)? } else { otherwise.value(value_of)? }
            }
        })
    }
}

impl Operator {
    fn apply(self, a: f64, b: f64) -> f64 {
        let truth = |holds: bool| f64::from(u8::from(holds));
        match self {
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
            Operator::Divide => a / b,
            Operator::Less => truth(a < b),
            Operator::LessOrEqual => truth(a <= b),
            Operator::Greater => truth(a > b),
            Operator::GreaterOrEqual => truth(a >= b),
            Operator::Equal => truth(a == b),
            Operator::NotEqual => truth(a != b),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Number(number) => write!(f, "{number}"),
            Token::Name(name) => f.write_str(name),
            Token::Symbol(symbol) => f.write_str(symbol),
        }
    }
}

/// The symbols. Longer ones come first, because shorter ones may be their prefixes.
const SYMBOLS: &[&str] = &["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")", ","];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let len = if first.is_ascii_digit() {
            let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.' || *byte == b'_';
            let len = rest.bytes().take_while(|byte| is_part(byte)).count();
            let number = rest[..len].replace('_', "").parse();
            let wrong = || format!("formula '{text}': got '{}', expected a number", &rest[..len]);
            tokens.push(Token::Number(number.map_err(|_| wrong())?));
            len
        } else if first.is_ascii_alphabetic() {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let len = rest.bytes().take_while(|byte| is_part(byte)).count();
            tokens.push(Token::Name(rest[..len].to_string()));
            len
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            return Err(format!(
                "formula '{text}': got '{first}', expected numbers, names, + - * / ( ) and \
                 comparisons"
            ));
        };
        rest = rest[len..].trim_start();
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    /// Consumes and returns the next token if it is one of `symbols`.
    fn symbol(&mut self, symbols: &[&'static str]) -> Option<&'static str> {
        let Some(Token::Symbol(symbol)) = self.peek() else { return None };
        let symbol = *symbol;
        symbols.contains(&symbol).then(|| {
            self.next += 1;
            symbol
        })
    }

    /// Consumes the next token if it is `word`. Returns whether it was consumed.
    fn word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Name(name)) if name == word);
        self.next += usize::from(is_next);
        is_next
    }

    fn expected(&self, what: &str) -> String {
        match self.peek() {
            Some(token) => format!("formula: got '{token}', expected {what}"),
            None => format!("formula: got its end, expected {what}"),
        }
    }

    fn formula(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("formula: expected at most {DEPTH_MAX} levels of nesting"));
        }
        let value = self.comparison()?;
        let node = if self.word("if") {
            let condition = self.comparison()?;
            if !self.word("else") {
                return Err(self.expected("'else'"));
            }
            Node::Choice(Box::new([condition, value, self.formula()?]))
        } else {
            value
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, String> {
        let left = self.sum()?;
        let operator = match self.symbol(&["<", "<=", ">", ">=", "==", "!="]) {
            Some("<") => Operator::Less,
            Some("<=") => Operator::LessOrEqual,
            Some(">") => Operator::Greater,
            Some(">=") => Operator::GreaterOrEqual,
            Some("==") => Operator::Equal,
            Some(_) => Operator::NotEqual,
            None => return Ok(left),
        };
        Ok(Node::Binary(operator, Box::new([left, self.sum()?])))
    }

    fn sum(&mut self) -> Result<Node, String> {
        let mut node = self.product()?;
        while let Some(symbol) = self.symbol(&["+", "-"]) {
            let operator = if symbol == "+" { Operator::Add } else { Operator::Subtract };
            node = Node::Binary(operator, Box::new([node, self.product()?]));
        }
        Ok(node)
    }

    fn product(&mut self) -> Result<Node, String> {
        let mut node = self.factor()?;
        while let Some(symbol) = self.symbol(&["*", "/"]) {
            let operator = if symbol == "*" { Operator::Multiply } else { Operator::Divide };
            node = Node::Binary(operator, Box::new([node, self.factor()?]));
        }
        Ok(node)
    }

    fn factor(&mut self) -> Result<Node, String> {
        let mut is_negative = false;
        while self.symbol(&["-"]).is_some() {
            is_negative = !is_negative;
        }
        let node = self.operand()?;
        Ok(if is_negative { Node::Negative(Box::new(node)) } else { node })
    }

    fn operand(&mut self) -> Result<Node, String> {
        if self.symbol(&["("]).is_some() {
            let node = self.formula()?;
            return match self.symbol(&[")"]) {
                Some(_) => Ok(node),
                None => Err(self.expected("')'")),
            };
        }
        let token = self.peek().cloned();
        let node = match token {
            Some(Token::Number(number)) => Node::Number(number),
            Some(Token::Name(name)) if name != "if" && name != "else" => Node::Name(name),
            _ => return Err(self.expected("a number, a name or '('")),
        };
        self.next += 1;
        match node {
            Node::Name(name) if self.symbol(&["("]).is_some() => self.call(&name),
            node => Ok(node),
        }
    }

    fn call(&mut self, name: &str) -> Result<Node, String> {
        let mut arguments = vec![self.formula()?];
        while self.symbol(&[","]).is_some() {
            arguments.push(self.formula()?);
        }
        if self.symbol(&[")"]).is_none() {
            return Err(self.expected("',' or ')'"));
        }
        match name {
            "min" => Ok(Node::Least(arguments)),
            "max" => Ok(Node::Greatest(arguments)),
            _ => Err(format!("formula: no function '{name}', expected min or max")),
        }
    }
}

impl<'de> Deserialize<'de> for Formula {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Formula, D::Error> {
        struct FormulaVisitor;
        impl Visitor<'_> for FormulaVisitor {
            type Value = Formula;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a formula in quotes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Formula, E> {
                Formula::parse(text).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Formula, E> {
                Ok(Formula::number(number))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Formula, E> {
                Ok(Formula::number(number as f64))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Formula, E> {
                Ok(Formula::number(number as f64))
            }
        }
        from.deserialize_any(FormulaVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        Formula::parse(text).unwrap().value(&|name| match name {
            "gib" => Some(200.0),
            "zero" => Some(0.0),
            _ => None,
        })
    }

    #[test]
    fn arithmetic_has_the_usual_precedence() {
        for (text, expected) in [
            ("1 + 2 * 3 - 4 / 2", 5.0),
            ("(1 + 2) * 3", 9.0),
            ("10 - 4 - 3", 3.0),
            ("64 / 4 / 2", 8.0),
            ("-2 * -3", 6.0),
            ("1 - -1", 2.0),
            ("1_048_576 * 0.25", 262_144.0),
            ("min(16000, max(100, 3 * gib))", 600.0),
            ("max(1, 5, 3)", 5.0),
            ("128 if gib <= 170 else 250", 250.0),
            ("(1 if gib > 100 else 2) * 3", 3.0),
            ("1 if zero else 2 if gib == 200 else 3", 2.0),
            ("gib >= 200", 1.0),
            ("gib != 200", 0.0),
            ("1 + 1 < 3", 1.0),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn unknown_names_and_missing_limits_have_no_value() {
        assert_eq!(value("iops * 2"), None);
        assert_eq!(value("1 / zero"), None);
        assert_eq!(value("zero / zero"), None);
        assert_eq!(value("1 if gib else iops"), Some(1.0), "the other value is not needed");
        let formula = Formula::parse("max(iops, 2 * gib) if mibps > 1 else gib").unwrap();
        assert_eq!(formula.names(), ["mibps", "iops", "gib", "gib"]);
    }

    #[test]
    fn errors_say_what_is_expected() {
        let deep = format!("{}1{}", "(".repeat(40), ")".repeat(40));
        let chain = format!("{}1", "1 if 1 else ".repeat(60));
        let long = "1+".repeat(600);
        for (text, said) in [
            ("", "got its end, expected a number, a name or '('"),
            ("3 *", "got its end"),
            ("3 gib", "got 'gib', expected its end"),
            ("(3", "expected ')'"),
            ("min(3", "expected ',' or ')'"),
            ("min()", "got ')', expected a number"),
            ("log(3)", "no function 'log', expected min or max"),
            ("1 if 2", "expected 'else'"),
            ("if", "got 'if', expected a number"),
            ("1.2.3", "got '1.2.3', expected a number"),
            ("3 % 2", "got '%', expected numbers"),
            ("1 < 2 < 3", "got '<', expected its end"),
            ("gib = 3", "got '=', expected numbers"),
            (&deep, "at most 32 levels"),
            (&chain, "at most 32 levels"),
            (&long, "got a formula of 1200 bytes"),
        ] {
            let got = Formula::parse(text).unwrap_err();
            assert!(got.contains(said), "{text}: {got}");
        }
    }
}
