-- Queries for run.db. Each has a name, one sentence, and SQL that can be given to `iwb-batch query` as it stands.
-- docs/audit.md is made from this file; tests/test_docs.py runs every query.

-- name: The raw output of one request
-- Every line that came back for item 0, criterion 0, verbatim, attempt by attempt (pairs: ask for `q.pair_order` instead).
SELECT a.attempt, f.name AS raw_file, l.line, l.kind, l.text
FROM request q
JOIN attempt a ON a.request_id = q.request_id
JOIN raw_line l ON l.custom_id = a.custom_id
JOIN raw_file f ON f.raw_file_id = l.raw_file_id
WHERE q.item_index = 0 AND q.criterion_index = 0
ORDER BY a.attempt, q.repeat, l.raw_line_id;

-- name: All attempts of an item
-- What was sent for item 0, in order, with what came of it and the batch it went in.
SELECT q.criterion, q.pair_order, q.repeat, l.attempt, l.outcome, l.detail, l.batch_id, l.model, l.completion_tokens
FROM attempt_log l
JOIN request q ON q.request_id = l.request_id
WHERE q.item_index = 0
ORDER BY q.request_id, l.attempt;

-- name: Requests by outcome
-- How many requests are scored, open or failed, and what the last answer came to.
SELECT status, last_outcome, count(*) AS requests, sum(attempts) AS attempts
FROM request_status
GROUP BY status, last_outcome
ORDER BY requests DESC;

-- name: Scores below 4
-- The lowest scores with the judge's reason, to read what the judge objects to.
SELECT item_id, criterion, repeat, score, reason
FROM score
WHERE score < 4
ORDER BY score, item_index, criterion_index;

-- name: Reasons that contain a word
-- Reasons with the word "quality"; `instr` looks for the exact letters, in any script.
SELECT item_id, criterion, score, reason
FROM score
WHERE instr(reason, 'quality') > 0
ORDER BY item_index, criterion_index, repeat;

-- name: Answers that needed unwrapping
-- Judgements that were not plain JSON, with what was taken off and the text as it came.
SELECT v.custom_id, j.notes, j.score, j.preferred, l.content
FROM verdict v
JOIN judgement j ON j.reading_id = v.reading_id
JOIN attempt_log l ON l.custom_id = v.custom_id
WHERE j.notes <> '[]'
ORDER BY v.request_id;

-- name: Cost by what it bought
-- Tokens and USD of answers that became judgements, were asked for again, or led to nothing.
SELECT class, attempts, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, cost_usd
FROM usage
ORDER BY attempts DESC;

-- name: How long batches took
-- Minutes from submission until the provider was done, and until the answers were here.
SELECT batch_id, request_file, n_requests, remote_status,
       round((julianday(ended_at) - julianday(submitted_at)) * 1440, 1) AS minutes_until_ended,
       round((julianday(collected_at) - julianday(submitted_at)) * 1440, 1) AS minutes_until_collected
FROM batch_log
WHERE submitted_at IS NOT NULL
ORDER BY batch_id;

-- name: Duplicates and strays
-- Lines that came back and were kept but not read: second answers, foreign ids, lines that are no JSON.
SELECT f.name AS raw_file, l.line, l.kind, l.custom_id, substr(l.text, 1, 200) AS text
FROM raw_line l
JOIN raw_file f ON f.raw_file_id = l.raw_file_id
WHERE l.kind <> 'answer'
ORDER BY f.raw_file_id, l.line;

-- name: Prompts whose renderings differ most
-- The spread of item scores between renderings (native, code-mixed, romanized) of one prompt.
SELECT min(i.item_id) AS first_item, count(*) AS renderings,
       round(min(s.score), 2) AS lowest, round(max(s.score), 2) AS highest,
       round(max(s.score) - min(s.score), 2) AS spread
FROM item i
JOIN item_score s ON s.item_index = i.item_index
WHERE s.score IS NOT NULL
GROUP BY i.cluster
HAVING count(*) > 1
ORDER BY spread DESC, first_item;

-- name: Disagreement between repeats
-- The same request judged several times (`--repeats`), where the scores are not all equal.
SELECT item_id, criterion, count(*) AS repeats, min(score) AS lowest, max(score) AS highest
FROM score
GROUP BY item_index, criterion_index
HAVING min(score) < max(score)
ORDER BY highest - lowest DESC, item_index, criterion_index;

-- name: Models that answered
-- Which model and system fingerprint the provider named; more than one row means that the judge changed on the way.
SELECT model, system_fingerprint, count(*) AS answers
FROM attempt_log
WHERE model IS NOT NULL
GROUP BY model, system_fingerprint
ORDER BY answers DESC;

-- name: Items that are not complete
-- Every item without a score, with the reason it was left out or how many of its requests are scored.
SELECT s.item_id, i.left_out, s.n_scored, s.n_planned, s.score_partial
FROM item_score s
JOIN item i ON i.item_index = s.item_index
WHERE s.score IS NULL
ORDER BY s.item_index;

-- name: Failed requests in the provider's words
-- What ended each request whose budget is spent.
SELECT item_id, criterion_index, pair_order, repeat, outcome, detail, error_code, message, attempts
FROM failure
ORDER BY item_index, criterion_index, repeat;

-- name: What was cut off before judging
-- Responses that carried a chain of thought: how long it was, how long the answer is, what was noticed.
SELECT item_index, length(reasoning) AS reasoning_characters, length(answer) AS answer_characters, flags
FROM response
WHERE reasoning <> ''
ORDER BY item_index;
