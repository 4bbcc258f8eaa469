// Words that the prose of this repository does not use, each with what to write instead. tools/lint-prose.mjs looks for
// them. The rules behind them are in CONTRIBUTING.md.

const NAME_THE_ACTOR = 'name the actor: the caller, the holder, an instance, Redis';

/** A pattern without the flag `i` is for the first word of a sentence. A space stands for any white space. */
export const WORDS = [
  // Actors.
  [/\bwho(?:m|s)?(?:ever|soever)\b/i, NAME_THE_ACTOR],
  [/\b(?:those|these|all|anybody|anyone|everybody|everyone|nobody|one|ones|two|he|they|by|of) who\b/i, NAME_THE_ACTOR],
  [/(?<=[\uE000.:]\s*)Who (?!is |are |am )/, NAME_THE_ACTOR],
  [/\bthat one\b/i, 'name the thing'],
  [/\bso many\b/i, 'give the number, or the option that has it'],

  // The first word of a docstring.
  [/\b(?:Answers|Tells|Asks|Says|Hears|Believes)\b/, 'Returns, Reports, Requests, …: the literal verb'],

  // Requests and queues.
  [
    /\b(?:an?|the|each|every|this|one|its|their|any|no|first|next|last|late|lost|single|such) asks?\b/i,
    'request, attempt',
  ],
  [/\basks? (?:for locks|anew|of)\b/i, 'requests'],
  [/\baskers?\b/i, 'caller, instance'],
  [/\bcontenders?\b/i, 'acquire loop, or waiter'],
  [/\bgate(?:s|keepers?)?\b/i, 'local lock'],
  [/\btenures?\b/i, 'pass on'],
  [/\bclaim(?:s|ed|ing)?\b/i, 'queue entry'],
  [/\b(?:patien(?:t|ce|tly)|impatient)\b/i, 'remaining wait, request timeout'],
  [/\bcalls?(?:ed|ing)? (?:it |them |that )?off\b/i, 'cancel'],
  [/\blast words?\b/i, 'last reply'],

  // Handing off.
  [/\bhand(?:s|ed|ing)?(?: |-| (?:it|them|that|one|this|the \w+|a \w+|locks?) )over\b/i, 'hand off, handoff'],
  [/\bhandovers?\b/i, 'handoff'],
  [/\bhand-offs?\b/i, 'handoff'],

  // Messages and connections.
  [/\b(?:tells?|telling|told)\b/i, 'returns, reports, notifies, shows'],
  [/\b(?:hears?|hearing|heard)\b/i, 'receives'],
  [/\bears?\b/i, 'channel subscription'],
  [/\bnews\b/i, 'events'],
  [/\becho(?:es|ed|ing)?\b/i, 'probe'],
  [/\bdoubt(?:s|ed|ing|ful)?\b/i, 'verify, probe'],

  // Leases and stores.
  [/\bbeliev(?:e|es|ed|ing)\b/i, 'trust, assume, use'],
  [/\bin vain\b/i, 'without effect'],
  [/\bdebts?\b/i, 'pending release'],
  [/\bcourtes(?:y|ies)\b/i, 'yield'],
  [/\b(?:lacks?|lacking|lacked)\b/i, 'does not have'],
  [/\bkeepers?\b/i, 'owner, …Deps'],
  [/\bprincipals?\b/i, 'owner'],
  [/\bwaiv(?:e|es|ed|ing)\b/i, 'skip the minimum hold'],
];

/** Translated English, which is looked for in all texts of the code, too: errors, log lines, test tables. */
export const PHRASES = [
  [
    /(?<!\bthere (?:\w+ )?)\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b|better\b|worse\b|other\b|different\b|\w+er than\b)/i,
    'is not a …, is not …',
  ],
  [/(?<!\bthere (?:\w+ )?)\b(?:is|are|was|were|be) none\b/i, 'is not one, is not a …'],
  [/\b(?:ends|ended|stops?|stopped|g[ia]ves? up|giving up|given up) to (?!end\b|\d)/i, 'stops …ing'],
  [/\balso (?:if|when|while|after|before|without)\b/i, 'even if'],
  [/\bany ?more\b(?! than\b)/i, 'no longer'],
  [/\bas ever\b/i, 'as usual'],
  [/\bnothing does\b/i, 'say what happens'],
  [/\b(?:make|makes|made|making) no (?:\w+ )?key\b/i, 'cannot form a key'],
  [/\bclients? of (?:ioredis|node-redis)\b/i, 'an ioredis client, a node-redis client'],
  [/\b(?:Kept|Not kept|Counted|Not counted|Missing|Meant) (?:is|are)\b/, 'begin with the subject'],
  [/(?:; a|\bA)llowed (?:is|are)\b/, '; expected …'],
  [/\bfor ever\b/i, 'forever'],
  [/\banew\b/i, 'again'],
  [/\b(?:some|any|no)(?:body|thing|one) else than\b/i, 'other than'],
  [/\banother (?:\w+ ){1,2}than\b/i, 'a different … from, a … other than'],
  [/\b(?:one|either) of both\b/i, 'one of them'],
  [/\bnevertheless\b/i, 'still'],
  [/\bfor how (?:long|much|many)\b/i, 'how long'],
  [/(?<!\b(?:each|one|two|some|all|none|many|most|half|part|both) )\bof which\b/i, 'make it a sentence of its own'],
  [/, also (?:in|through|from|of|by|under|inside|those|with)\b/i, 'even …, including …'],
  [/\bis told\b/i, 'is notified, gets, learns'],
  [/\breturns? how to\b/i, 'Returns a function that …'],
  [/\bsince when\b/i, 'when … began'],
  [/\blet it be\b/i, 'Set it to …'],
  [/\bfor good\b/i, 'permanently'],
  [/\b(?:counts?|works?|applies|apply),? too\b/i, 'also …'],
  [/\bof yours\b/i, 'your own …'],
  [/\bfinds? out by\b/i, 'notices at'],
  [/\bhas none of its own\b/i, 'does not have its own …'],
  [/\bto the letter\b/i, 'exactly'],
];

/** Beside words. */
export const SEMICOLON = [/;(?=\s|$)/, 'write two sentences'];
