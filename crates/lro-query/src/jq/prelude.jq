# Functions of jq that jaq lacks or defines differently.

# Regular expressions, by the linear-time engine.
def match($re; $flags): regex_matches($re; $flags)[];
def match($re): if $re | isarray then match($re[0]; $re[1]) else match($re; null) end;
def named_captures: reduce (.captures[] | select(.name != null)) as $c ({}; . + {($c.name): $c.string});
def capture($re; $flags): match($re; $flags) | named_captures;
def capture($re): match($re) | named_captures;
def scan($re; $flags): match($re; "g" + $flags)
  | if .captures == [] then .string else [.captures[].string] end;
def scan($re): if $re | isarray then scan($re[0]; $re[1]) else scan($re; null) end;
def split($re; $flags): [regex_pieces($re; "g" + $flags)[] | strings];
def splits($re; $flags): split($re; $flags)[];
def splits($re): split($re; null)[];
def sub($re; f; $flags):
  reduce regex_pieces($re; $flags)[] as $piece ("";
    . + ($piece | if isstring then . else named_captures | f end));
def sub($re; f): sub($re; f; null);
def gsub($re; f; $flags): sub($re; f; "g" + $flags);
def gsub($re; f): sub($re; f; "g");

# Strings
def ltrimstr($x): if isstring and ($x | isstring) then strip_prefix($x) end;
def rtrimstr($x): if isstring and ($x | isstring) then strip_suffix($x) end;
def trimstr($x): ltrimstr($x) | rtrimstr($x);
def ascii: [.] | implode;

# Objects
def from_entries: reduce .[] as $e ({};
  . + { ([$e | .key, .k, .name, .Name, .Key, .K | values] | .[0] | if isstring then . else tojson end):
        ([$e | .value, .v, .Value, .V | values] | .[0]) });
def with_entries(f): to_entries | map(f) | from_entries;

# The set operations of jq's manual
def INDEX(stream; f): reduce stream as $row ({}; . + {($row | f | tostring): $row});
def INDEX(f): INDEX(.[]; f);
def IN(s): any(s == .; .);
def IN(source; s): any(source == s; .);
def JOIN($index; f): [.[] | [., $index[f]]];
def JOIN($index; stream; f): stream | [., $index[f]];
def JOIN($index; stream; f; join): stream | [., $index[f]] | join;

# Streams
def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p)
  | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def fromstream(events): {x: null, e: false} as $new
  | foreach events as $i ($new;
      if .e then $new end
      | if $i | length == 2
        then .e = ($i[0] | length == 0) | setpath(["x"] + $i[0]; $i[1])
        else .e = ($i[0] | length == 1) end;
      if .e then .x else empty end);
def truncate_stream(stream): . as $n | null | stream
  | if .[0] | length > $n then setpath([0]; .[0][$n:]) else empty end;

# Smaller ones
def leaf_paths: paths(scalars);
def toarray: if isarray then . else [.] end;
def have_literal_numbers: true;
def have_decnum: false;
def date: todate;
def dateadd(unit; $n): . + $n;
def datesub(unit; $n): . - $n;
