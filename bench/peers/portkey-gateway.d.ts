/** It comes without types; importing it starts it. */
declare module '@portkey-ai/gateway/build/start-server.js' {}
