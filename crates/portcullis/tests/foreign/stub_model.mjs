// A model on loopback that calls tools one after the other, in the dialects of four vendors, and remembers what it was shown.
//
// usage: stub_model.mjs STEPS
//
// STEPS is a JSON array of pairs: a tool and its arguments. The first line of standard output is the address. `GET /said` answers with
// the tools that were offered and what each call brought, as the model read it.
import { createServer } from 'node:http';

const steps = JSON.parse(process.argv[2]);
const names = [...new Set(steps.map(([name]) => name))];
let offered = [];
let said = [];

/// The offered name that stands for a tool: agents put their own words before it, and some change a character.
const spelled = (name) => name.replaceAll('-', '_');
const find = (tools, name) => tools.find((tool) => spelled(tool).endsWith(spelled(name)));
const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/// What a conversation leads to: a call of a tool, or the end.
function next(tools, results) {
    const known = names.filter((name) => find(tools, name));
    if (known.length < names.length) return null;
    offered = known;
    said = results;
    const step = steps[results.length];
    return step ? { id: `call_${results.length}`, name: find(tools, step[0]), args: step[1] } : null;
}

function events(response, list) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const [event, data] of list) {
        response.write(`${event ? `event: ${event}\n` : ''}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
    }
    response.end();
}

function anthropic(body, response) {
    const blocks = body.messages.flatMap((message) => (Array.isArray(message.content) ? message.content : []));
    const results = blocks.filter((block) => block.type === 'tool_result');
    const call = next(
        (body.tools ?? []).map((tool) => tool.name),
        results.map((block) => ({ error: Boolean(block.is_error), text: text(block.content) })),
    );
    const content = call
        ? { type: 'tool_use', id: call.id, name: call.name, input: {} }
        : { type: 'text', text: '' };
    const delta = call ? { type: 'input_json_delta', partial_json: JSON.stringify(call.args) } : { type: 'text_delta', text: 'done' };
    const stop_reason = call ? 'tool_use' : 'end_turn';
    const usage = { input_tokens: 1, output_tokens: 1 };
    const message = { id: 'msg_1', type: 'message', role: 'assistant', model: body.model, content: [], stop_reason: null, stop_sequence: null, usage };
    if (!body.stream) {
        const whole = call ? { ...content, input: call.args } : { type: 'text', text: 'done' };
        return json(response, { ...message, content: [whole], stop_reason });
    }
    events(response, [
        ['message_start', { type: 'message_start', message }],
        ['content_block_start', { type: 'content_block_start', index: 0, content_block: content }],
        ['content_block_delta', { type: 'content_block_delta', index: 0, delta }],
        ['content_block_stop', { type: 'content_block_stop', index: 0 }],
        ['message_delta', { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage }],
        ['message_stop', { type: 'message_stop' }],
    ]);
}

function responses(body, response) {
    const results = body.input.filter((item) => item.type === 'function_call_output');
    const tools = (body.tools ?? []).flatMap((tool) => (tool.type === 'namespace' ? tool.tools.map((inner) => ({ ...inner, space: tool.name })) : [tool]));
    const call = next(
        tools.map((tool) => tool.name ?? ''),
        results.map((item) => ({ error: null, text: text(item.output) })),
    );
    const space = call && tools.find((tool) => tool.name === call.name)?.space;
    const item = call
        ? { type: 'function_call', id: `fc_${call.id}`, call_id: call.id, name: call.name, arguments: JSON.stringify(call.args), ...(space ? { namespace: space } : {}) }
        : { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'done' }] };
    const usage = { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 };
    events(response, [
        ['response.created', { type: 'response.created', response: { id: 'resp_1' } }],
        ['response.output_item.done', { type: 'response.output_item.done', output_index: 0, item }],
        ['response.completed', { type: 'response.completed', response: { id: 'resp_1', usage } }],
    ]);
}

function chat(body, response) {
    const results = body.messages.filter((message) => message.role === 'tool');
    const call = next(
        (body.tools ?? []).map((tool) => tool.function.name),
        results.map((message) => ({ error: null, text: text(message.content) })),
    );
    const delta = call
        ? { role: 'assistant', tool_calls: [{ index: 0, id: call.id, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.args) } }] }
        : { role: 'assistant', content: 'done' };
    const chunk = (delta, finish_reason) => ({ id: 'chat_1', object: 'chat.completion.chunk', created: 0, model: body.model, choices: [{ index: 0, delta, finish_reason }] });
    if (!body.stream) {
        const choice = { index: 0, message: { ...delta, content: delta.content ?? null }, finish_reason: call ? 'tool_calls' : 'stop' };
        return json(response, { id: 'chat_1', object: 'chat.completion', created: 0, model: body.model, choices: [choice] });
    }
    events(response, [['', chunk(delta, null)], ['', chunk({}, call ? 'tool_calls' : 'stop')], ['', '[DONE]']]);
}

function gemini(body, response, streams) {
    const parts = (body.contents ?? []).flatMap((content) => content.parts ?? []);
    const results = parts.filter((part) => part.functionResponse);
    const call = next(
        (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map((tool) => tool.name),
        results.map((part) => ({ error: null, text: text(part.functionResponse.response) })),
    );
    const part = call ? { functionCall: { id: call.id, name: call.name, args: call.args } } : { text: 'done' };
    const answer = {
        candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
        usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    };
    return streams ? events(response, [['', answer]]) : json(response, answer);
}

function json(response, value) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
}

const server = createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const path = new URL(request.url, 'http://stub').pathname;
    if (process.env.STUB_LOG) console.error(request.method, request.url);
    if (path === '/said') return json(response, { tools: offered, said });
    const body = pieces.length ? JSON.parse(Buffer.concat(pieces).toString()) : {};
    if (process.env.STUB_LOG) console.error(JSON.stringify(body).slice(0, 20000));
    if (path.endsWith('/count_tokens')) return json(response, { input_tokens: 1 });
    if (path.endsWith(':countTokens')) return json(response, { totalTokens: 1 });
    if (path.endsWith('/v1/messages')) return anthropic(body, response);
    if (path.endsWith('/responses')) return responses(body, response);
    if (path.endsWith('/chat/completions')) return chat(body, response);
    if (path.includes('enerateContent')) return gemini(body, response, path.endsWith(':streamGenerateContent'));
    if (path.endsWith('/models')) return json(response, { object: 'list', data: [{ id: 'stub', object: 'model' }], models: [] });
    response.writeHead(404);
    response.end('{}');
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
