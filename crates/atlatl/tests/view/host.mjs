// An MCP Apps host over ext-apps' own bridge. The query string chooses what it supports;
// `window.host` is what the test reads and drives.
import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';
import { argumentFault, defineTables, lroPage } from './results.mjs';

const options = new URLSearchParams(location.search);
const has = (name) => options.get(name) !== '0';
defineTables({ large: options.get('ref') === 'lro:01LARGE' ? 100_000 : 10 });

const frame = document.createElement('iframe');
frame.setAttribute('sandbox', 'allow-scripts');
frame.src = 'view.html';
const mode = options.get('mode') ?? 'inline';
if (mode === 'fullscreen') frame.style.height = '100vh';

const host = {
  messages: [], // Every message that the view posts.
  calls: [], // {args, milliseconds, cancelled} of every tools/call.
  contexts: [], // Parameters of ui/update-model-context.
  userMessages: [], // Parameters of ui/message.
  faults: [], // Faults of the arguments of lro_page.
  heights: [],
  initialized: false,
  outcomes: [], // How the next calls end: {error}, {rpcError}, {delay}, or {silent}.
  frame,
};
window.host = host;
addEventListener('message', ({ source, data }) => {
  if (source === frame.contentWindow) host.messages.push(data);
});

const capabilities = {};
if (has('tools')) capabilities.serverTools = {};
if (has('context')) capabilities.updateModelContext = { text: {} };
if (options.get('message') === '1') capabilities.message = { text: {} };
const hostContext = { displayMode: mode, availableDisplayModes: ['inline', 'fullscreen'] };
if (options.has('theme')) {
  hostContext.theme = options.get('theme');
  document.documentElement.style.colorScheme = options.get('theme');
}
if (options.has('variables')) hostContext.styles = { variables: JSON.parse(options.get('variables')) };

const bridge = new AppBridge(null, { name: 'test-host', version: '1' }, capabilities, { hostContext });
bridge.oninitialized = async () => {
  host.initialized = true;
  host.app = bridge.getAppVersion();
  const args = { ref: options.get('ref') ?? 'lro:01ISSUES' };
  if (options.get('result') === '0') return;
  await bridge.sendToolInput({ arguments: args });
  await host.show(args);
};
bridge.onsizechange = ({ height }) => {
  host.heights.push(height);
  if (mode === 'inline') frame.style.height = `${height}px`;
};
bridge.oncalltool = async ({ name, arguments: args }, { mcpReq }) => {
  const start = performance.now();
  const call = { name, args, milliseconds: 0, cancelled: false };
  host.calls.push(call);
  mcpReq.signal.addEventListener('abort', () => (call.cancelled = true));
  const fault = name === 'lro_page' ? argumentFault(args) : `tool ${name}`;
  if (fault) host.faults.push(fault);
  const outcome = host.outcomes.shift() ?? {};
  if (outcome.silent) await new Promise(() => {});
  if (outcome.rpcError) throw new Error(outcome.rpcError);
  if (outcome.error) return { isError: true, content: [{ type: 'text', text: outcome.error }] };
  const structuredContent = await lroPage(args);
  call.milliseconds = performance.now() - start;
  if (outcome.delay) await new Promise((resolve) => setTimeout(resolve, outcome.delay));
  return { content: [], structuredContent };
};
bridge.onupdatemodelcontext = async (params) => {
  host.contexts.push(params);
  return {};
};
bridge.onmessage = async (params) => {
  host.userMessages.push(params);
  return {};
};
bridge.onrequestdisplaymode = async ({ mode: next }) => ({ mode: next });

host.show = async (args) => bridge.sendToolResult({ content: [{ type: 'text', text: 'Shown.' }], structuredContent: await lroPage(args) });
host.bridge = bridge;
host.teardown = () => bridge.teardownResource({});

document.body.append(frame);
bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
