import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readSettings } from './settings.ts'

// nginx as Debian packages it, serving a folder with one worker and its access log on.

const { port, folder } = readSettings('folder')
mkdirSync(join(folder, 'temporary'), { recursive: true })
const config = join(folder, 'nginx.conf')
writeFileSync(
  config,
  `daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
user ${process.getuid?.() === 0 ? 'root' : 'nobody'};
events { worker_connections 1024; }
http {
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  etag on;
  client_body_temp_path ${folder}/temporary/body;
  proxy_temp_path ${folder}/temporary/proxy;
  fastcgi_temp_path ${folder}/temporary/fastcgi;
  uwsgi_temp_path ${folder}/temporary/uwsgi;
  scgi_temp_path ${folder}/temporary/scgi;
  access_log ${folder}/access.log;
  server {
    listen 127.0.0.1:${port};
    root ${folder}/site;
    add_header Cache-Control "public, max-age=31536000, immutable";
  }
}
`,
)
const nginx = spawn('nginx', ['-c', config, '-p', folder], { stdio: 'inherit' })
nginx.on('exit', (code) => process.exit(code ?? 1))
process.on('exit', () => void nginx.kill())
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0))
